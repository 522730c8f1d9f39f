"""Types whose values are Python objects in NumPy: nested lists, structs, maps, decimals, times.

Such values do not reveal their type. If the files have one that still fits after the
transforms, it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

if TYPE_CHECKING:
    from trainshed.data.sources.column_arrays import Array


def as_told(array: Array, kind: pa.DataType) -> pa.Array | None:
    """Return values as such a type; None if the type is simple, or the values do not fit."""
    if not _is_intricate(kind):
        return None
    values = array if array.ndim == 1 else array.tolist()
    try:
        typed = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if array.ndim > 1 and array.dtype != object:
        return typed if pa.from_numpy_dtype(array.dtype) == _leaf_of(kind) else None
    try:
        found = pa.array(values).type
    except (pa.ArrowException, TypeError):  # a map is not inferred
        return typed
    return typed if types.is_map(kind) or _holds(kind, found) else None


def _is_intricate(kind: pa.DataType) -> bool:
    if _is_list(kind):
        inner = kind.value_type
        return bool(types.is_nested(inner) or types.is_string(inner) or types.is_decimal(inner))
    return bool(types.is_struct(kind) or types.is_map(kind) or types.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _leaf_of(kind: pa.DataType) -> pa.DataType:
    return _leaf_of(kind.value_type) if _is_list(kind) else kind


def _holds(kind: pa.DataType, found: pa.DataType, *, is_exact: bool = True) -> bool:
    """Return whether a type's values look like another type.

    is_exact: whether they are NumPy's and not Python's, whose integers and floats have one size.
    """
    if types.is_null(found):
        return True
    if _is_list(kind) and _is_list(found):
        return _holds(kind.value_type, found.value_type, is_exact=is_exact)
    if types.is_struct(kind) and types.is_struct(found):
        return all(
            kind.get_field_index(each.name) >= 0
            and _holds(kind.field(each.name).type, each.type, is_exact=False)
            for each in found
        )
    for fits in (types.is_decimal, *(() if is_exact else (types.is_integer, types.is_floating))):
        if fits(kind):
            return bool(fits(found))
    return bool(kind == found)
