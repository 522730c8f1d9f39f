"""Converts columns of NumPy arrays to Arrow tables that read back as the same arrays;
`data/sources/arrow` does the reverse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sources.arrow_columns import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    RAY_RAGGED_TENSORS,
    becomes_floats,
)
from trainshed.data.sources.column_arrays import MOST_EXACT, num_rows
from trainshed.data.sources.errors import DataError
from trainshed.inspect.nested_types import as_told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trainshed.data.sources.column_arrays import Array, Columns

# Parquet has no coarser times: these come back in milliseconds.
_COARSE = ("datetime64[s]", "datetime64[m]", "datetime64[h]")


def schema_of(
    tables: Sequence[Columns], source: pa.Schema | None, *, as_read: bool = False
) -> pa.Schema:
    """Return columns and types that hold the rows of all tables; null for one without a value.

    Args:
        tables: at least one; rows from several positions.
        source: of the files, if there are any.
        as_read: whether no transform has run, so that floats are nullable integers or booleans if
            the files have these.

    Raises:
        DataError: naming a column that Arrow cannot represent, or that some tables lack.
    """
    for table in tables:
        _check_names(table, tables[0])
    return pa.schema([_field_of(name, tables, source, as_read=as_read) for name in tables[0]])


def with_texts(schema: pa.Schema) -> pa.Schema:
    """Return a schema with texts for columns that have no value in any row."""
    return pa.schema(
        [each.with_type(pa.string()) if pa.types.is_null(each.type) else each for each in schema]
    )


def told_of(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the merged column types of tables, which hold the rows of all."""
    kinds: dict[str, list[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            kinds.setdefault(field.name, []).append(field.type)
    return pa.schema([(name, _unified(each) or each[0]) for name, each in kinds.items()])


def to_arrow(columns: Columns, schema: pa.Schema) -> pa.Table:
    """Return columns as an Arrow table of a schema.

    Raises:
        DataError: naming a column whose values are of another type or shape.
    """
    _check_names(columns, schema.names)
    arrays = [_fitted(field, columns[field.name]) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _field_of(
    name: str, tables: Sequence[Columns], source: pa.Schema | None, *, as_read: bool
) -> pa.Field:
    arrays = [table[name] for table in tables]
    told = source.field(name) if source and name in source.names else None
    # Missing and empty values hide the type at any position.
    if told is not None and all(as_told(array, told.type) is not None for array in arrays):
        return pa.field(name, told.type)
    found = [_stored(name, array)[0] for array in arrays]
    if (
        as_read
        and told is not None
        and (pa.types.is_integer(told.type) or pa.types.is_boolean(told.type))
        and all(field.type in (told.type, pa.float64()) for field in found)
    ):
        return pa.field(name, told.type)
    return _shared(name, found, told)


def _check_names(columns: Columns, names: Iterable[str]) -> None:
    if set(columns) != set(names):
        raise DataError(
            f"rows with the columns {', '.join(sorted(columns))} among others with "
            f"{', '.join(sorted(names))}: all rows need the same"
        )


def _stored(name: str, array: Array) -> tuple[pa.Field, pa.Array]:
    """Return values as Arrow infers them, and their type."""
    try:
        if array.dtype == object and array.ndim == 1 and _are_tensors(array.tolist()):
            return _ragged(name, array.tolist())
        values = _values(array)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        rows = f"{array.dtype}{list(array.shape[1:]) if array.ndim > 1 else ''}"
        raise DataError(
            f"column {name}: {rows} is no type of parquet ({' '.join(str(error).split())}): turn "
            "it into numbers, texts or bytes by a transform, or leave it out with --columns"
        ) from error
    return pa.field(name, values.type), values


def _values(array: Array) -> pa.Array:
    array = _plain(array)
    if array.ndim == 1:
        return pa.array(array, from_pandas=False)
    if array.dtype.kind in "OUS":
        return pa.array(array.tolist())
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    size = int(np.prod(array.shape[1:]))
    if array.shape[1:] == (0,):
        return pa.array([[]] * len(array), pa.list_(flat.type))
    kind = pa.fixed_shape_tensor(flat.type, array.shape[1:])
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(flat, size))


def _plain(array: Array) -> Array:
    if str(array.dtype) in _COARSE:
        return array.astype("datetime64[ms]")
    return array.astype(array.dtype.newbyteorder("=")) if not array.dtype.isnative else array


def _are_tensors(values: Sequence[object]) -> bool:
    """Return whether rows are arrays of several axes and different lengths."""
    return bool(values) and all(
        isinstance(value, np.ndarray) and value.ndim > 1 and value.dtype != object
        for value in values
    )


def _ragged(name: str, rows: Sequence[Array]) -> tuple[pa.Field, pa.Array]:
    """Return arrays of one type and different lengths as Ray Data stores them."""
    if len({(row.dtype, row.ndim) for row in rows}) > 1:
        raise ValueError("arrays of several types or numbers of axes")
    flat = [_plain(row).reshape(-1) for row in rows]
    inner = pa.array(flat[0]).type
    data = pa.array(flat, pa.large_list(inner))
    shape = pa.array([list(row.shape) for row in rows], pa.list_(pa.int64()))
    field = _ragged_field(name, inner, rows[0].ndim)
    return field, pa.StructArray.from_arrays([data, shape], fields=list(field.type))


def _ragged_field(name: str, inner: pa.DataType, ndim: int) -> pa.Field:
    kind = pa.struct([("data", pa.large_list(inner)), ("shape", pa.list_(pa.int64()))])
    marks = {
        EXTENSION_NAME: RAY_RAGGED_TENSORS.encode(),
        EXTENSION_METADATA: json.dumps(ndim).encode(),
    }
    return pa.field(name, kind, metadata=marks)


def _shared(name: str, found: Sequence[pa.Field], source: pa.Field | None) -> pa.Field:
    """Return a type that holds the values of all positions.

    Lists of equal length look like arrays, and integers without a missing value like integers:
    the types of the files decide.
    """
    known = [field for field in found if not pa.types.is_null(field.type)]
    if not known:
        return found[0]
    are_alike = all(field.equals(known[0], check_metadata=True) for field in known)
    # The type of the values, if each row is a list of them.
    kinds_inside = {_inner_of(field.type) for field in known}
    inner = kinds_inside.pop() if len(kinds_inside) == 1 else None
    if inner and (_is_list_of(inner, source) or not are_alike):
        return pa.field(name, pa.list_(inner))
    if are_alike:
        return known[0]
    if source is not None and any(field.type == source.type for field in known):
        # Nullable integers are floats at these positions.
        others = [field for field in known if field.type != source.type]
        if pa.types.is_integer(source.type) and all(f.type == pa.float64() for f in others):
            return pa.field(name, source.type)
    tensors = {_of_tensors(field) for field in known}
    if len(tensors) == 1 and (alike := tensors.pop()):
        return _ragged_field(name, *alike)
    unified = _unified([field.type for field in known])
    if unified is None:
        kinds = ", ".join(sorted({str(field.type) for field in known}))
        raise DataError(f"column {name}: rows of several types ({kinds}): all need the same")
    return pa.field(name, unified)


def _is_list_of(inner: pa.DataType, source: pa.Field | None) -> bool:
    """Return whether the files have lists of any length of such values."""
    if source is None:
        return False
    kind = source.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_list and kind.value_type == inner)


def _inner_of(kind: pa.DataType) -> pa.DataType | None:
    if isinstance(kind, pa.FixedShapeTensorType):
        return kind.value_type if len(kind.shape) == 1 else None
    return kind.value_type if pa.types.is_list(kind) else None


def _of_tensors(field: pa.Field) -> tuple[pa.DataType, int] | None:
    """Return the type of the values, and the number of axes, of a column of arrays."""
    if isinstance(field.type, pa.FixedShapeTensorType):
        return field.type.value_type, len(field.type.shape)
    if (marks := _marks(field)) is not None:
        return field.type.field("data").type.value_type, int(marks)
    return None


def _marks(field: pa.Field) -> bytes | None:
    metadata: Mapping[bytes, bytes] = field.metadata or {}
    return metadata.get(EXTENSION_METADATA)


def _unified(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type that holds values of all types; None if there is none."""
    schemas = [pa.schema([("x", kind)]) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowException:
        return None


def _fitted(field: pa.Field, array: Array) -> pa.Array:
    told = None if _marks(field) else as_told(array, field.type)
    return _adapted(field, array) if told is None else told


def _adapted(field: pa.Field, array: Array) -> pa.Array:
    found, values = _stored(field.name, array)
    if found.type == field.type and _marks(found) == _marks(field):
        return values
    try:
        if pa.types.is_null(found.type):
            return pa.nulls(num_rows({field.name: array}), field.type)
        if _marks(field) is not None and _of_tensors(found) == _of_tensors(field):
            return _ragged(field.name, list(array))[1]
        if pa.types.is_list(field.type) and _inner_of(found.type) == field.type.value_type:
            offsets = np.arange(len(values) + 1, dtype=np.int32) * int(found.type.shape[0])
            return pa.ListArray.from_arrays(pa.array(offsets), values.storage.flatten())
        if becomes_floats(field.type) and found.type == pa.float64():
            _check_exact(field, array)
            return pa.array(array, from_pandas=True).cast(field.type)
        if _unified([field.type, found.type]) == field.type:
            return values.cast(field.type)
    except pa.ArrowException as error:
        raise _misfit(field, found, f" ({' '.join(str(error).split())})") from error
    raise _misfit(field, found, "")


def _check_exact(field: pa.Field, array: Array) -> None:
    """Refuse integers that were converted to float, and may have been rounded.

    Raises:
        DataError: naming one.
    """
    numbers = array.astype(np.float64)
    large = numbers[np.abs(numbers) >= MOST_EXACT]
    if len(large):
        raise DataError(
            f"column {field.name}: {large[0]:.0f} beside rows without a value: such a column is "
            "read as floats, which round integers above 2**53; leave it out with --columns"
        )


def _misfit(field: pa.Field, found: pa.Field, why: str) -> DataError:
    return DataError(
        f"column {field.name}: {found.type} among rows with {field.type}{why}: all rows of a "
        "column need one type and, unless they are lists, one shape"
    )
