"""Columns and types that all files of a dataset share: from their first rows, or the spec.

Every task uses them: from its own lines one might infer integers where another does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sources.arrow_columns import becomes_floats
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from trainshed.data.sources.listing import Found
    from trainshed_api.formats import ColumnType

# Number of files to inspect, from first to last: files of one folder may differ.
LOOKED_AT = 8

_ARROW: dict[ColumnType, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
}


class Shared(NamedTuple):
    """The shared columns of a dataset's files.

    Args:
        schema: columns, and the types to parse.
        floats: nullable columns of integers and booleans, which are returned as floats, by
            name.
    """

    schema: pa.Schema
    floats: tuple[str, ...]


def some_files(files: Sequence[Found]) -> list[Found]:
    """Return a few files from first to last, to infer the columns of all."""
    places = sorted({round(place) for place in np.linspace(0, len(files) - 1, LOOKED_AT)})
    return [files[place] for place in places]


def shared_schema(
    files: Sequence[Found],
    told: Callable[[str], pa.Schema | None],
    types: Mapping[str, ColumnType],
    field: str,
) -> Shared:
    """Return the columns of all files, with types that hold the values of each.

    Args:
        files: at least one.
        told: returns the columns of a file from its first lines, as `told_types` does; None without
            a good line.
        types: from the TrainingRun.
        field: the spec's field to name in errors.

    Raises:
        SpecError: if files differ, a type is for no column, or no file has a good line.
    """
    filled = [file for file in files if file.bytes]
    if not filled:
        raise SpecError([Problem(f"{field}.path", files[0].where, "files with at least one row")])
    seen = ((file.where, told(file.where)) for file in some_files(filled))
    schemas = [(where, schema) for where, schema in seen if schema is not None]
    if not schemas:
        expected = "a valid record among the first ones of at least one file"
        raise SpecError([Problem(f"{field}.path", files[0].where, expected)])
    first = schemas[0][0]
    for where, schema in schemas[1:]:
        if sorted(schema.names) != sorted(schemas[0][1].names):
            expected = f"the columns of {first}: {', '.join(schemas[0][1].names)}"
            raise SpecError(
                [Problem(f"{field}.path", f"{', '.join(schema.names)} in {where}", expected)]
            )
    try:
        as_said = _as_said([schema for _, schema in schemas], types)
        shared = pa.unify_schemas(as_said, promote_options="permissive")
    except pa.ArrowException as error:
        expected = "one type for each column in all files. Set it for the columns that differ"
        raise SpecError(
            [Problem(f"{field}.options.types", " ".join(str(error).split()), expected)]
        ) from error
    if unknown := [name for name in types if name not in shared.names]:
        expected = f"one of {', '.join(shared.names)} ({first})"
        raise SpecError([Problem(f"{field}.options.types", name, expected) for name in unknown])
    told_as = (each for schema in as_said for each in schema)
    floats = {each.name for each in told_as if becomes_floats(each.type) and each.nullable}
    schema = pa.schema([pa.field(each.name, _kept(each.type)) for each in shared])
    return Shared(schema, tuple(sorted(floats)))


def told_types(table: pa.Table) -> pa.Schema:
    """Return columns with types that hold their values.

    Integers and booleans stay, and are nullable if some are missing.
    """
    return pa.schema(
        [
            _told(each, is_lacking=some.null_count > 0)
            for each, some in zip(table.schema, table.columns, strict=True)
        ]
    )


def _told(field: pa.Field, *, is_lacking: bool) -> pa.Field:
    return field.with_nullable(is_lacking) if becomes_floats(field.type) else field


def parsed_as(
    schema: pa.Schema, floats: Collection[str], parse: Callable[[pa.Schema], pa.Table]
) -> pa.Table:
    """Return rows with nullable integers, or floats if one has a fraction.

    Args:
        schema: of the rows.
        floats: columns that are returned as floats.
        parse: returns the rows with the types of a schema; raises if one does not fit.

    Raises:
        pyarrow.ArrowNotImplementedError: naming a column whose integers may have been rounded. No
            single record is bad then, so none can be skipped.
    """
    try:
        return parse(schema)
    except (ValueError, pa.ArrowTypeError):
        lacking = {each.name for each in schema if pa.types.is_integer(each.type)} & {*floats}
        if not lacking:
            raise
    table = parse(
        pa.schema(
            [each.with_type(pa.float64()) if each.name in lacking else each for each in schema]
        )
    )
    for name in lacking.intersection(table.column_names):
        ends = pc.min_max(table.column(name)).as_py()
        if ends["min"] is not None and max(-ends["min"], ends["max"]) >= MOST_EXACT:
            raise pa.ArrowNotImplementedError(
                f"column {name} has numbers from {MOST_EXACT} on, which float64 may have rounded, "
                f"beside missing ones; options.types: {{{name}: float64}} takes them so"
            )
    return table


def refuse_missing(table: pa.Table, floats: Collection[str]) -> None:
    """Refuse missing values in a column whose type has none.

    NaN would turn this table into floats, while other tables have integers: a batch's type would
    depend on its rows.

    Args:
        table: rows.
        floats: columns that are returned as floats, which have NaN.

    Raises:
        ValueError: naming the column, and what to do.
    """
    for each, some in zip(table.schema, table.columns, strict=True):
        if becomes_floats(each.type) and some.null_count and each.name not in floats:
            hint = f"options.types: {{{each.name}: float64}} has NaN for it"
            raise ValueError(f"no value in column {each.name} of type {each.type}; {hint}")


def declared(types: Mapping[str, ColumnType]) -> pa.Schema | None:
    """Return the columns with types in the TrainingRun; None without any."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in types.items()]) if types else None


def _as_said(schemas: Sequence[pa.Schema], types: Mapping[str, ColumnType]) -> list[pa.Schema]:
    """Return columns with the types of the TrainingRun, whatever the lines suggest.

    Except that booleans as floats are nullable booleans.
    """
    said: dict[str, pa.Field] = {}
    for name, kind in types.items():
        told = {schema.field(name).type for schema in schemas if name in schema.names}
        if kind == "float64" and told - {pa.null()} == {pa.bool_()}:
            said[name] = pa.field(name, pa.bool_())
        else:
            said[name] = pa.field(name, _ARROW[kind], nullable=False)
    return [pa.schema([said.get(each.name, each) for each in schema]) for schema in schemas]


def _kept(found: pa.DataType) -> pa.DataType:
    """Return the type of a column; without a value in the first lines it may have any type."""
    return pa.string() if pa.types.is_null(found) else found
