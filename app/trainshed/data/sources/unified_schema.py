"""One schema for all files of a dataset, and the conversion of tables to it. Pure.

Types widen as by Arrow's `unify_schemas`, and values are converted only where none changes.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sources.errors import DataError, on_one_line
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


class FileSchema(NamedTuple):
    """The columns of a file."""

    path: str
    schema: pa.Schema


def refuse_twins(file: FileSchema, field: str, remedy: str, columns: Collection[str] = ()) -> None:
    """Refuse a file with several columns of one name, of which a table has one.

    Args:
        file: of the dataset.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read.path`.
        remedy: a sentence.
        columns: that are read; empty for all.

    Raises:
        SpecError: naming the file and the column.
    """
    for name, number in Counter(file.schema.names).items():
        if number > 1 and (not columns or name in columns):
            got = f"{number} columns named {name} in {file.path}"
            expected = f"columns with different names. {remedy}"
            raise SpecError([Problem(field, got, expected)])


def unified_schema(
    files: Sequence[FileSchema], field: str, remedy: str, columns: Collection[str] = ()
) -> pa.Schema:
    """Return the columns of all files, with types that hold the values of each.

    A column that a file lacks is nullable.

    Args:
        files: at least one.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read.path`.
        remedy: a sentence for columns without a common type.
        columns: that need a common type; empty for all. Others have the type of their first file.

    Raises:
        SpecError: naming each column without a common type, and two files.
    """
    if len(files) == 1:
        return files[0].schema
    found: list[pa.Field] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(name for each in files for name in each.schema.names):
        having = [each for each in files if name in each.schema.names]
        stored = dict[pa.Field, str]()
        for each in having:
            stored.setdefault(each.schema.field(each.schema.names.index(name)), each.path)
        try:
            unified = _unified(stored)
        except pa.ArrowException:
            unified = next(iter(stored))
            if not columns or name in columns:
                problems.append(_misfit(stored, field, remedy))
        is_nullable = unified.nullable or len(having) < len(files)
        found.append(unified.with_nullable(is_nullable))
    if problems:
        raise SpecError(problems)
    return pa.schema(found)


def conforms(schema: pa.Schema, unified: pa.Schema, columns: Collection[str] = ()) -> bool:
    """Return whether a file has columns with the types of all files; columns: empty for all."""
    return all(
        field.name in schema.names and _stored(schema.field(field.name)) == _stored(field)
        for field in unified
        if not columns or field.name in columns
    )


def with_files(schema: pa.Schema, files: Sequence[FileSchema]) -> pa.Schema:
    """Return a schema whose metadata have the first file with each column."""
    first: dict[str, str] = {}
    for each in files:
        for name in each.schema.names:
            first.setdefault(name, each.path)
    return schema.with_metadata(first)


def inspected_file(schema: pa.Schema, column: str) -> str:
    """Return a file of `with_files`, which has the column if any file has it."""
    files: dict[bytes, bytes] = schema.metadata or {}  # none where each footer was read
    return (files.get(column.encode()) or next(iter(files.values()), b"the first")).decode()


def check_fits(file: FileSchema, schema: pa.Schema, columns: Collection[str] = ()) -> None:
    """Refuse a file whose columns do not fit to those of the files that planning inspected.

    Args:
        file: that planning did not inspect.
        schema: of all files, with metadata by `with_files`.
        columns: that are read; empty for all.

    Raises:
        DataError: naming the column.
    """
    for each in file.schema:
        if columns and each.name not in columns:
            continue
        got, expected = str(each.type), "no such column"
        if each.name in schema.names:
            field = schema.field(each.name)
            expected = f"{field.type} or a type that it holds"
            if file.schema.get_field_index(each.name) < 0:
                got, expected = "several", "one column of this name"
            elif _holds(field, each):
                continue
        raise DataError(
            f"{file.path}: column {each.name}: got {got}; expected {expected}, as in the files "
            f"that planning inspected, such as {inspected_file(schema, each.name)}. Select other "
            "columns by read.columns, or write one type in all files."
        )


def _holds(field: pa.Field, other: pa.Field) -> bool:
    """Return whether the type of a column holds the values of another type."""
    if _stored(field) == _stored(other):
        return True
    wanted, found = _comparable(
        [each.with_type(_changed(_stored(each), _small)) for each in (field, other)]
    )
    try:
        return bool(_unified([wanted, found]).type == wanted.type)
    except pa.ArrowException:
        return False


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a plain type with 32-bit offsets, whose values are the same in NumPy."""
    kind = _plain(kind)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return pa.list_(kind.value_type) if pa.types.is_large_list(kind) else kind


def conformed(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """Return a table with the columns of a schema, and nulls for those that it lacks.

    Args:
        table: rows of a file.
        schema: wanted columns and types.
        path: of the file, for errors.

    Raises:
        DataError: naming a column with a value that its type in all files does not hold.
    """
    fields: list[pa.Field] = []
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for field in schema:
        place = table.schema.get_field_index(field.name)
        stored = table.schema.field(place) if place >= 0 else field
        # The field of a column has the shape of its tensors, which may differ between files.
        is_alike = _stored(stored) == _stored(field)
        fields.append(stored if is_alike else field)
        if place < 0:
            arrays.append(pa.nulls(table.num_rows, field.type))
        else:
            column = table.column(place)
            arrays.append(column if is_alike else _cast(column, field, path))
    return pa.table(arrays, schema=pa.schema(fields))


def _stored(field: pa.Field) -> pa.DataType:
    """Return the type of a column's values in files; Ray's tensors differ in their shape alone."""
    kind = field.type
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _unified(fields: Iterable[pa.Field]) -> pa.Field:
    """Return a column with a type that holds the values of all of these types."""
    fields = list(fields)
    if len({field.type for field in fields}) > 1:  # Arrow has no common type of these
        fields = _comparable(fields)
    schemas = [pa.schema([field]) for field in fields]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0)


def _comparable(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """Return columns with types of which Arrow has the common type, if there is one."""
    fields = [each.with_type(_plain(_stored(each))) for each in fields]
    if any(pa.types.is_decimal(each.type) for each in fields):
        fields = [each.with_type(_with_digits(each.type)) for each in fields]
    return fields


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, and times with a zone in UTC."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if has_zone else kind


def _with_digits(kind: pa.DataType) -> pa.DataType:
    """Return a decimal for a short one and for integers, of which Arrow counts too few digits."""
    if pa.types.is_integer(kind):
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        return pa.decimal128(len(str(2**bits)), 0)
    is_short = pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind)
    return pa.decimal128(kind.precision, kind.scale) if is_short else kind


def _misfit(stored: dict[pa.Field, str], field: str, remedy: str) -> Problem:
    """Return what to say of a column without a common type: two types, each with a file."""
    for one, other in combinations(stored, 2):
        try:
            _unified([one, other])
        except pa.ArrowException:
            break
    return Problem(
        field,
        f"column {one.name} of {other.type} in {stored[other]}",
        f"a type that goes with {one.type} in {stored[one]}. {remedy}",
    )


def _cast(array: pa.ChunkedArray, field: pa.Field, path: str) -> pa.ChunkedArray:
    try:
        by = array.type
        if not _holds_digits(by, field.type):
            # Arrow's own conversion to floats is off by one in the last digit, as of 1234.10, and
            # that to a decimal of fewer digits may return another number.
            by = as_texts(by, pa.types.is_decimal)
        found = array.cast(by).cast(field.type)
        _refuse_lost_digits(array, found)
    except pa.ArrowException as error:
        said = on_one_line(error)
        raise DataError(
            f"{path}: column {field.name} of {array.type}: got {said}; expected values that "
            f"{field.type}, the common type of all files, holds exactly. Leave the column out by "
            "read.columns, or write it with one type in all files."
        ) from error
    return found


def _holds_digits(decimal: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a type is a decimal with as many digits before and after the point."""
    return bool(
        pa.types.is_decimal(decimal)
        and pa.types.is_decimal(kind)
        and kind.scale >= decimal.scale
        and kind.precision - kind.scale >= decimal.precision - decimal.scale
    )


def as_texts(kind: pa.DataType, chosen: Callable[[pa.DataType], bool]) -> pa.DataType:
    """Return a type with texts instead of chosen types, also inside of lists, structs and maps."""
    return _changed(kind, lambda each: pa.string() if chosen(each) else each)


def _changed(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with a change of it and of those inside of lists, structs and maps."""
    kind = change(kind)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else -1
        return pa.list_(_changed(kind.value_type, change), size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_changed(kind.value_type, change))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _changed(kind.item_type, change))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_changed(each.type, change)) for each in kind])
    return kind


def _refuse_lost_digits(array: pa.ChunkedArray, found: pa.ChunkedArray) -> None:
    """Refuse decimals that became floats whose shortest texts are other numbers.

    Raises:
        pyarrow.ArrowInvalid: if there is one, also inside of lists, structs and maps.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        for each in kind:
            _refuse_lost_digits(
                pc.struct_field(array, each.name), pc.struct_field(found, each.name)
            )
    elif pa.types.is_map(kind):
        _refuse_lost_digits(*(each.cast(_as_list(each.type)) for each in (array, found)))
    elif pa.types.is_nested(kind):  # a list
        _refuse_lost_digits(pc.list_flatten(array), pc.list_flatten(found))
    elif pa.types.is_decimal(kind) and pa.types.is_floating(found.type):
        exact = pa.decimal256(76, kind.scale)
        if not found.cast(pa.string()).cast(exact).equals(array.cast(exact)):
            raise pa.ArrowInvalid("a decimal with more digits than floats have")


def _as_list(kind: pa.MapType) -> pa.DataType:
    """Return a map's type as a list of its entries."""
    return pa.list_(pa.struct([kind.key_field, kind.item_field]))
