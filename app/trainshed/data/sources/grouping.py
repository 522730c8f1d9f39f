"""Groups equal rows: the same groups in the same order, however rows are split.

Groups are ordered by a hash of their values, so that ranges of hashes have similar sizes for any
values. Numbers are compared by value, whatever their type: nullable integers of one file are
floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sampler.randomness import digest, mix
from trainshed.data.sources.column_arrays import num_rows
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed_api.errors import no_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainshed.data.sampler.function import Function
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Columns

_HASH, _PLACE = "hash", "place"
# Hash of a missing value: a block with only missing values has no type.
_OF_NULL = np.uint64(0x9E3779B97F4A7C15)


def hashes(columns: Columns, function: Function) -> NDArray[np.uint64]:
    """Return a number for each row, shape (rows,): equal for all rows of a group.

    Args:
        columns: the rows.
        function: of kind groups.

    Raises:
        DataError: if a column does not exist, or cannot be compared.
    """
    field = function.beside("by")
    keys = comparable(columns, function.by, field)
    found = np.zeros(num_rows(columns), dtype=np.uint64)
    for name, key in zip(function.by, keys, strict=True):
        try:
            found = mix(found ^ value_hashes(key))
        except DataError as error:
            raise _not_compared(field, name, error) from error
    return found


def groups(columns: Columns, function: Function) -> tuple[Indices, Indices]:
    """Return the order of rows by group, shape (rows,), and the ends of groups, shape (groups,).

    Rows that are equal in `by` and `order_by` keep their order.

    Args:
        columns: the rows.
        function: of kind groups.

    Raises:
        DataError: if a column does not exist, or cannot be compared.
    """
    rows = num_rows(columns)
    by = comparable(columns, function.by, function.beside("by"))
    inside = comparable(columns, function.order_by, function.beside("orderBy"))
    keys = {_HASH: pa.array(hashes(columns, function))}
    keys |= {str(number): key for number, key in enumerate([*by, *inside])}
    keys[_PLACE] = pa.array(np.arange(rows, dtype=np.int64))
    ascending = [(name, "ascending") for name in keys]
    order = pc.sort_indices(pa.table(keys), sort_keys=ascending).to_numpy().astype(np.int64)
    starts = np.zeros(max(0, rows - 1), dtype=np.bool_)
    for key in by:
        codes = key.dictionary_encode(null_encoding="encode").indices.to_numpy()[order]
        starts |= codes[1:] != codes[:-1]
    return order, np.append(np.flatnonzero(starts) + 1, [rows] if rows else []).astype(np.int64)


def value_hashes(key: pa.Array) -> NDArray[np.uint64]:
    """Return a hash for each value, shape (rows,); missing values have one for any type.

    Raises:
        DataError: for times outside of Python's range.
    """
    kind, is_null = key.type, key.is_null().to_numpy(zero_copy_only=False)
    if is_null.all():
        return np.full(len(key), _OF_NULL)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        filled = key.cast(pa.float64(), safe=False).fill_null(0.0)
        numbers: NDArray[np.float64] = filled.to_numpy(zero_copy_only=False)
        return np.where(is_null, _OF_NULL, mix(numbers.view(np.uint64)))
    encoded = key.drop_null().dictionary_encode()
    try:
        known = encoded.dictionary.to_pylist()
    except (OverflowError, ValueError) as error:
        raise DataError(on_one_line(error)) from error
    if pa.types.is_decimal(kind):
        # Not with Arrow, whose rounding depends on the scale; and without -0.0.
        floats = np.asarray([float(value) for value in known]) + 0.0
        digests = mix(floats.view(np.uint64))
    else:
        digests = np.asarray([_digest(value) for value in known], dtype=np.uint64)
    found = np.full(len(key), _OF_NULL)
    found[~is_null] = digests[encoded.indices.to_numpy()]
    return found


def comparable(columns: Columns, names: tuple[str, ...], field: str) -> list[pa.Array]:
    """Return columns that can be compared; numbers without missing values as float64."""
    found = []
    for name in names:
        if name not in columns:
            raise DataError(f"{field}: {no_column(name, sorted(columns))}")
        array = columns[name]
        try:
            if array.ndim > 1:
                raise pa.ArrowInvalid(f"its rows have the shape {array.shape[1:]}")
            key = pa.array(array, from_pandas=True)
            pc.sort_indices(key[:1])
        except (pa.ArrowException, TypeError) as error:
            raise _not_compared(field, name, error) from error
        # Otherwise 0.0 and -0.0 would be two groups.
        found.append(pc.add(key, 0.0) if pa.types.is_floating(key.type) else key)
    return found


def _not_compared(field: str, name: str, error: Exception) -> DataError:
    said, expected = on_one_line(error), "a column of numbers, texts, bytes or times"
    return DataError(f"{field}: column {name} cannot be compared ({said}); expected {expected}")


def _digest(value: object) -> int:
    return digest(value if isinstance(value, bytes) else str(value).encode())
