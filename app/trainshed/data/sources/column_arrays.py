"""A table as programs see it: column name -> array whose first axis is the row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainshed.data.sources.casts import Misfit, common_type, exactly_as
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

# The element type is the user's; the first axis is always the row.
Array = NDArray[np.generic]
Columns = dict[str, Array]

# float64 holds every integer up to this.
MOST_EXACT = 2**53
_INTEGER_BYTES = 8
_POINTER = np.dtype(object).itemsize
_TEXTS = {"U": "text", "S": "bytes"}
_KINDS = dict.fromkeys("biufc", "numbers") | _TEXTS


def num_rows(columns: Mapping[str, Array]) -> int:
    """Return the number of rows of a table; 0 without columns."""
    return len(next(iter(columns.values()), ()))


def is_text(array: Array) -> bool:
    """Return whether a column has texts; some may be missing."""
    if array.dtype.kind in "US":
        return True
    if array.dtype != object or array.ndim != 1:
        return False
    return all(value is None or isinstance(value, str) for value in array.tolist())


def say_columns(columns: Mapping[str, Array]) -> str:
    """Return the columns by name, each with the type and shape of a row: x float32[28, 28], ..."""
    said = []
    for name, array in sorted(columns.items()):
        kind = "text" if array.dtype.kind in "US" else str(array.dtype)
        said.append(f"{name} {kind}{list(array.shape[1:]) if array.ndim > 1 else ''}")
    return ", ".join(said)


def nbytes(columns: Mapping[str, Array]) -> int:
    """Return the bytes of a table, including texts, binaries and arrays in object columns."""
    return sum(map(_held_by, columns.values()))


def _held_by(array: Array) -> int:
    if array.dtype != object:
        return array.nbytes
    values: Iterable[object] = array.flat
    return array.nbytes + sum(map(_size, values))


def _size(value: object) -> int:
    """Return the bytes of a row's value, approximately."""
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return _POINTER * len(value) + sum(map(_size, value))
    return _held_by(value) if isinstance(value, np.ndarray) else 0


def cut_rows(columns: Mapping[str, Array], start: int, stop: int) -> Columns:
    """Return rows [start, stop) as views."""
    return {name: array[start:stop] for name, array in columns.items()}


def take_rows(columns: Mapping[str, Array], chosen: slice | NDArray[np.int64]) -> Columns:
    """Return the chosen rows: views for a slice, else copies."""
    return {name: array[chosen] for name, array in columns.items()}


def join(
    tables: Sequence[Mapping[str, Array]],
    otherwise: str = "rows do not fit together",
    concatenate: Callable[[Sequence[Array]], Array] = np.concatenate,
) -> Columns:
    """Return the tables one below the other; a single one is returned as it is.

    Args:
        tables: at least one.
        otherwise: what an error says before the column.
        concatenate: joins the arrays of a column.

    Raises:
        DataError: when they have not the same columns, or numbers would become texts or others.
    """
    filled = [table for table in tables if num_rows(table)] or tables[:1]
    if len(filled) == 1:
        return dict(filled[0])
    if why := _misfit(filled):
        raise DataError(f"{otherwise}: {why}")
    filled = of_one_type(of_one_shape(filled), otherwise)
    return {name: concatenate([table[name] for table in filled]) for name in filled[0]}


def of_one_shape(tables: Sequence[Mapping[str, Array]]) -> Sequence[Mapping[str, Array]]:
    """Return the tables with object columns, an array per row, where row shapes differ.

    Lists of any length are such objects in a table with several lengths, and a two-axis array
    in a table with one.
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for table in tables:
        for name, array in table.items():
            shapes.setdefault(name, set()).add(array.shape[1:])
    if not (ragged := {name for name, found in shapes.items() if len(found) > 1}):
        return tables
    return [
        {
            name: as_objects(list(array)) if name in ragged and array.ndim > 1 else array
            for name, array in table.items()
        }
        for table in tables
    ]


def of_one_type(
    tables: Sequence[Mapping[str, Array]], otherwise: str = "rows do not fit together"
) -> Sequence[Mapping[str, Array]]:
    """Return the tables with one type for each numeric column: NumPy's common type.

    otherwise: start of an error message.

    Raises:
        DataError: if a number would change, such as a large integer beside floats.
    """
    dtypes: dict[str, set[np.dtype[np.generic]]] = {}
    for table in tables:
        for name, array in table.items():
            dtypes.setdefault(name, set()).add(array.dtype)
    several = {name for name, found in dtypes.items() if len(found) > 1}
    if not several:
        return tables
    arrays = {name: [table[name] for table in tables if name in table] for name in several}
    types = {name: kind for name in several if (kind := common_type(arrays[name]))}
    return [
        {
            name: _exact(name, array, types[name], otherwise) if name in types else array
            for name, array in table.items()
        }
        for table in tables
    ]


def _exact(name: str, array: Array, wanted: str, otherwise: str) -> Array:
    made = exactly_as(array, wanted)
    if isinstance(made, Misfit):
        raise DataError(
            f"{otherwise}: column {name} of {array.dtype} beside {wanted}: got {made.value}; "
            f"expected {made.expected}. Make one type of the column in all rows."
        )
    return made


def is_rounded(array: Array) -> bool:
    """Return whether a column has integers beyond 2**53 that float64 may not represent."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < _INTEGER_BYTES or not array.size:
        return False
    least, most = np.minimum.reduce(array, axis=None), np.maximum.reduce(array, axis=None)
    return bool(least < -MOST_EXACT or most > MOST_EXACT)


def as_floats(columns: Columns, names: Collection[str]) -> Columns:
    """Return a table with these columns as float64, except integers that it would round."""
    wanted = frozenset(names)
    if wanted.isdisjoint(columns):
        return columns
    return {
        name: array.astype(np.float64) if name in wanted and not is_rounded(array) else array
        for name, array in columns.items()
    }


def exactly(
    columns: Columns, path: str, floats: Collection[str] = (), integers: Collection[str] = ()
) -> Columns:
    """Return the wanted columns of rows, with the exact integers of the file.

    Args:
        columns: as `as_floats` returns them; nullable integers that float64 would round are masked
            arrays.
        path: of their file, for errors.
        floats: columns that are float64 in all tables, with NaN for missing values.
        integers: nullable columns that are int64 in all tables, as float64 would round values.

    Raises:
        DataError: naming the column, for a value that is missing or would be rounded.
    """
    found = {}
    for name, array in columns.items():
        if name in integers:
            found[name] = _without_missing(path, name, array)
        elif isinstance(array, np.ma.MaskedArray) or (name in floats and array.dtype.kind in "iu"):
            raise _rounded(path, name, array)
        else:
            found[name] = array
    return found


def _without_missing(path: str, name: str, array: Array) -> Array:
    is_masked = isinstance(array, np.ma.MaskedArray)
    if np.any(np.ma.getmaskarray(array) if is_masked else np.isnan(array)):
        raise DataError(
            f"{path}: column {name}: got a row without a value; expected one in each row, as "
            f"float64, which has NaN, rounds integers beyond {MOST_EXACT} that this column has. "
            f"Leave such rows out by read.where: {name} is not None, or the column by read.columns."
        )
    return np.asarray(array).astype(np.int64, copy=False)


def _rounded(path: str, name: str, array: Array) -> DataError:
    values = array.compressed() if isinstance(array, np.ma.MaskedArray) else array
    large = values[np.greater(values, MOST_EXACT) | np.less(values, -MOST_EXACT)]
    return DataError(
        f"{path}: column {name}: got {large[0]}; expected integers up to {MOST_EXACT}, as other "
        "rows have no value: float64, which has NaN for them, rounds larger ones. Leave the column "
        f"out by read.columns, or have it as text, of csv by options.types: {{{name}: string}}."
    )


def as_array(value: object) -> Array:
    """Return a user's result as an array; bytes and texts as objects.

    NumPy's fixed-width bytes lose trailing zeros, and Arrow stops at the first zero. Both types,
    and NumPy's texts, use the width of the longest value for all values.

    Raises:
        ValueError: for lists of unequal length, and integers that would be rounded beside floats.
    """
    if isinstance(value, (bytes, str)):
        return np.asarray(value, dtype=object)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(_say_ragged(error)) from error
    if array.dtype.kind not in _TEXTS:
        _check_integers(value, array)
        return array
    # NumPy has already removed trailing zeros from a list of bytes.
    return np.asarray(value, dtype=object) if isinstance(value, list) else array.astype(object)


def _say_ragged(error: ValueError) -> str:
    if "inhomogeneous" not in str(error):
        return str(error)
    return (
        "its lists differ in length, which an array of numbers cannot have. Return lists of one "
        "length, or a column of arrays: a = np.empty(rows, dtype=object); a[:] = arrays"
    )


def _check_integers(value: object, array: Array) -> None:
    """Refuse a list whose integers NumPy would round to floats."""
    if array.dtype != np.float64 or not isinstance(value, (list, tuple)):
        return
    with np.errstate(invalid="ignore"):
        large = np.abs(array) >= MOST_EXACT
    is_large = bool(large.any()) and bool(np.isfinite(array[large]).any())
    for each in np.asarray(value, dtype=object).flat if is_large else ():
        if isinstance(each, (int, np.integer)) and int(float(each)) != each:
            raise ValueError(
                f"a list with {each} beside other numbers, of which float64 would be made; "
                "expected integers that it holds exactly. Return an array of one type"
            )


def as_column(value: object) -> Array:
    """Return the same as a column, with several objects per row, such as texts, as an array.

    This matches files: lists of texts differ in length.

    Raises:
        ValueError: for lists of unequal length.
    """
    array = as_array(value)
    return as_objects(list(array)) if array.dtype == object and array.ndim > 1 else array


def as_objects(values: Sequence[object]) -> Array:
    """Return values of any kind as a column of objects, shape (values,)."""
    return np.fromiter(values, dtype=object, count=len(values))


def _misfit(tables: Sequence[Mapping[str, Array]]) -> str | None:
    """Return which column of tables cannot be concatenated; None if all can."""
    first = tables[0]
    for other in tables[1:]:
        if lacking := sorted(first.keys() ^ other.keys()):
            return f"column {lacking[0]} is not in all of them"
    for name in first:
        arrays = [table[name] for table in tables]
        if kinds := mixed_kinds(arrays):
            return f"column {name} has {kinds}"
        are_single = {array.ndim == 1 for array in arrays if array.dtype != object}
        if len(are_single) > 1:
            return f"column {name} has single values beside arrays"
    return None


def mixed_kinds(arrays: Sequence[Array]) -> str | None:
    """Return the types that NumPy would silently convert to texts or objects; else None."""
    types = {array.dtype.kind for array in arrays}
    if len(types) == 1 and types != {"O"}:  # object columns may have texts, and bytes
        return None
    # All-NaN columns count as empty beside objects; beside NumPy's texts NaN would become a text.
    as_nothing = not any(array.dtype.kind in _TEXTS for array in arrays)
    some = [array for array in arrays if not (as_nothing and is_nothing(array))]
    kinds = sorted({kind for array in some if (kind := _kind(array))})
    return " beside ".join(kinds) if len(kinds) > 1 else None


def is_nothing(array: Array) -> bool:
    """Return whether a float column has only NaN."""
    return array.dtype.kind == "f" and bool(np.isnan(array).all())


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _kind(array: Array) -> str | None:
    """Return the type of an array's values; None if it is empty, or of any type."""
    if array.dtype != object:
        return _KINDS.get(array.dtype.kind)
    values: Iterable[object] = array.flat
    held = next((value for value in values if not _is_missing(value)), None)
    return "text" if isinstance(held, str) else "bytes" if isinstance(held, bytes) else None


def writable(
    columns: Mapping[str, Array], copy: Callable[[Array], Array] = np.ndarray.copy
) -> Columns:
    """Return the columns as writable arrays, copying read-only ones."""
    return {name: a if a.flags.writeable else copy(a) for name, a in columns.items()}
