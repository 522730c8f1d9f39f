"""A table as the program sees it: column name -> array whose first axis is the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The element type is the user's; the first axis is always the row.
Array = NDArray[np.generic]
Columns = dict[str, Array]


def num_rows(columns: Mapping[str, Array]) -> int:
    """Return the rows of a table; 0 when it has no column."""
    return len(next(iter(columns.values()), ()))


def nbytes(columns: Mapping[str, Array]) -> int:
    """Return the bytes of a table, those of strings and binaries included."""
    total = 0
    for array in columns.values():
        total += array.nbytes
        if array.dtype == object:
            total += sum(len(value) for value in array if isinstance(value, (bytes, str)))
    return total


def cut_rows(columns: Mapping[str, Array], start: int, stop: int) -> Columns:
    """Return rows [start, stop) as views."""
    return {name: array[start:stop] for name, array in columns.items()}


def join(tables: Sequence[Mapping[str, Array]]) -> Columns:
    """Return the tables one below the other; a single one is returned as it is."""
    if len(tables) == 1:
        return dict(tables[0])
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def from_arrow(table: pa.Table) -> Columns:
    """Return the columns of an Arrow table; lists of equal length become arrays of that shape."""
    return {name: _array(table.column(name)) for name in table.column_names}


def _array(column: pa.ChunkedArray) -> Array:
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        tensor: Array = column.combine_chunks().to_numpy_ndarray()
        return tensor
    if pa.types.is_fixed_size_list(kind) and not column.null_count:
        # flat has shape (rows * length,)
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat).reshape(len(column), kind.list_size)
    values: Array = column.to_numpy(zero_copy_only=False)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = {len(value) for value in values if value is not None}
        if len(lengths) == 1 and not column.null_count:
            return np.stack(list(values))
    return values
