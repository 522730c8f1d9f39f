"""Converts Arrow tables to NumPy columns; lists and tensors of one shape become one array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sources.column_arrays import MOST_EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.data.sources.column_arrays import Array, Columns

# Ray Data's marks of tensor columns in files. If Ray is not imported, Arrow sees only the stored
# type, and the field's metadata has the rest.
EXTENSION_NAME = b"ARROW:extension:name"
EXTENSION_METADATA = b"ARROW:extension:metadata"
RAY_TENSORS = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")
RAY_RAGGED_TENSORS = "ray.data.arrow_variable_shaped_tensor"
# If Ray is imported, Arrow unpickles such values, which could run code from the file.
RAY_OBJECTS = "ray.data.arrow_pickled_object"


def from_arrow(table: pa.Table) -> Columns:
    """Return the columns of an Arrow table, as views where Arrow allows.

    Missing numbers become NaN, other missing values None. Nullable integers that float64 would
    round become a masked array.

    Raises:
        pyarrow.ArrowTypeError: for a column of objects that Ray pickled.
    """
    for field in table.schema:
        if _holds_objects(field):
            raise pa.ArrowTypeError(
                f"column {field.name} holds pickled objects, which are never opened: whoever "
                "wrote them could run code; write numbers, texts, bytes or arrays"
            )
    return {field.name: _column(field, table.column(field.name)) for field in table.schema}


def becomes_floats(kind: pa.DataType) -> bool:
    """Return whether values are integers or booleans: nullable ones are floats in NumPy."""
    if pa.types.is_dictionary(kind):
        return becomes_floats(kind.value_type)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def in_tables(table: pa.Table, rows: int) -> Iterator[Columns]:
    """Yield the columns of an Arrow table in tables with a maximum of rows."""
    for start in range(0, table.num_rows, rows):
        yield from_arrow(table.slice(start, rows))


def say_stored(field: pa.Field) -> str:
    """Return the types of columns in files, with the shape of tensors."""
    kind = field.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return f"{kind.value_type}{list(kind.shape)}"
    name, metadata = _extension(field)
    if name in RAY_TENSORS:
        stored = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
        return f"{stored.value_type}{json.loads(metadata)}"
    return str(kind)


def _column(field: pa.Field, column: pa.ChunkedArray) -> Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # empty, or too large for one chunk
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], field.type)
    name, metadata = _extension(field)
    if isinstance(array, pa.FixedShapeTensorArray):
        if array.type.permutation:
            permuted: Array = array.to_numpy_ndarray()
            return permuted
        # Arrow's own conversion does not support all element types.
        return _reshaped(array.storage, tuple(array.type.shape))
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if name in RAY_TENSORS:
        return _reshaped(array, tuple(json.loads(metadata)))
    if name == RAY_RAGGED_TENSORS:
        return _ragged(array)
    return _values(array)


def _holds_objects(field: pa.Field) -> bool:
    """Return whether a column has pickled objects, or lists or structs of such."""
    kind = field.type
    if pa.types.is_primitive(kind):  # the usual case
        return False
    if _extension(field)[0] == RAY_OBJECTS:
        return True
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return _holds_objects(pa.field("", kind.value_type))
    return any(_holds_objects(kind.field(number)) for number in range(kind.num_fields))


def _extension(field: pa.Field) -> tuple[str, bytes]:
    if isinstance(field.type, pa.ExtensionType):
        return field.type.extension_name, field.type.__arrow_ext_serialize__()
    metadata = field.metadata or {}
    return metadata.get(EXTENSION_NAME, b"").decode(), metadata.get(EXTENSION_METADATA, b"")


def _values(array: pa.Array) -> Array:
    """Return an array of shape (rows, ...); lists of unequal length give an array of arrays."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if has_fields(kind):
        # Arrow's to_numpy makes floats of integers in fields that some rows lack.
        objects: Array = array.to_pandas(integer_object_nulls=True).to_numpy()
        return objects
    if _lacks_integers(array):
        return _as_floats(array)
    if pa.types.is_fixed_size_list(kind) and not array.null_count:
        return _rows_of(array, kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.unique(pc.list_value_length(array))
        if len(lengths) == 1 and lengths[0].is_valid:
            return _rows_of(array, lengths[0].as_py())
    if _is_list(kind):
        _check_inside(array)
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _lacks_integers(array: pa.Array) -> bool:
    """Return whether nullable integers include some that float64 may round."""
    is_long = pa.types.is_int64(array.type) or pa.types.is_uint64(array.type)
    return bool(is_long and array.null_count)


def _as_floats(array: pa.Array) -> Array:
    """Return integers as float64, or as a masked array if that would round one."""
    values: Array = array.to_numpy(zero_copy_only=False)
    # NaN satisfies neither comparison. Arrow's min_max would dominate the time here.
    if not (np.greater_equal(values, MOST_EXACT).any() or np.less_equal(values, -MOST_EXACT).any()):
        return values
    ends = pc.min_max(array).as_py()
    if ends["min"] >= -MOST_EXACT and ends["max"] <= MOST_EXACT:
        return values
    is_missing = array.is_null().to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(array.fill_null(0).to_numpy(), is_missing)


def _is_list(kind: pa.DataType) -> bool:
    are_any_length = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(are_any_length or pa.types.is_fixed_size_list(kind))


def has_fields(kind: pa.DataType) -> bool:
    """Return whether values are structs or maps, or lists of such."""
    return has_fields(kind.value_type) if _is_list(kind) else pa.types.is_nested(kind)


def _check_inside(lists: pa.Array) -> None:
    """Refuse lists of integers that float64 would round, as lists with missing values need it."""
    inner = lists.flatten()
    if _is_list(inner.type):
        _check_inside(inner)
    elif _lacks_integers(inner) and isinstance(_as_floats(inner), np.ma.MaskedArray):
        raise pa.ArrowTypeError(
            f"lists have missing values and integers beyond {MOST_EXACT}, which float64 would "
            "round: leave the column out by read.columns, or fill in the missing values"
        )


def _rows_of(array: pa.Array, length: int) -> Array:
    flat = _values(array.flatten())
    if flat.dtype == object:  # nested lists of unequal length, strings: one object per row
        values: Array = array.to_numpy(zero_copy_only=False)
        return values
    return flat.reshape(len(array), length, *flat.shape[1:])


def _reshaped(array: pa.Array, shape: tuple[int, ...]) -> Array:
    return _values(array.flatten()).reshape(len(array), *shape)


def _ragged(array: pa.StructArray) -> Array:
    data, shapes = array.field("data"), array.field("shape").to_pylist()
    tensors = [
        np.asanyarray(_values(values.values)).reshape(shape)
        for values, shape in zip(data, shapes, strict=True)
    ]
    if tensors and len({tensor.shape for tensor in tensors}) == 1:
        return np.stack(tensors)
    rows = np.empty(len(tensors), dtype=object)
    rows[:] = tensors
    return rows
