"""Columns and types that all files of a dataset share: as their first rows tell, or the spec.

Every task reads by them: by its own lines alone one would find integers where another finds none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainshed.data.read.listing import Found
    from trainshed_api.formats import ColumnType

# From the first to the last: files of one folder may differ.
LOOKED_AT = 8

_ARROW: dict[ColumnType, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def some_files(files: Sequence[Found]) -> list[Found]:
    """Return a few files from the first to the last, by which the columns of all are told."""
    places = sorted({round(place) for place in np.linspace(0, len(files) - 1, LOOKED_AT)})
    return [files[place] for place in places]


def shared_schema(
    files: Sequence[Found],
    told: Callable[[str], pa.Schema | None],
    types: Mapping[str, ColumnType],
    field: str,
) -> pa.Schema:
    """Return the columns of all files, with types that hold what is in each.

    Args:
        files: at least one.
        told: returns the columns of a file by its first lines; None where no line is good.
        types: those that the TrainingRun says.
        field: the spec's field to name in errors.

    Raises:
        SpecError: when files differ, a type is of no column, or none has a good line.
    """
    filled = [file for file in files if file.bytes]
    if not filled:
        raise SpecError([Problem(f"{field}.path", files[0].where, "files with at least one row")])
    seen = ((file.where, told(file.where)) for file in some_files(filled))
    schemas = [(where, _as_said(schema, types)) for where, schema in seen if schema is not None]
    if not schemas:
        want = "a record that can be used among the first of some file"
        raise SpecError([Problem(f"{field}.path", files[0].where, want)])
    first = schemas[0][0]
    for where, schema in schemas[1:]:
        if sorted(schema.names) != sorted(schemas[0][1].names):
            want = f"the columns of {first}: {', '.join(schemas[0][1].names)}"
            raise SpecError(
                [Problem(f"{field}.path", f"{', '.join(schema.names)} in {where}", want)]
            )
    try:
        shared = pa.unify_schemas([schema for _, schema in schemas], promote_options="permissive")
    except pa.ArrowException as error:
        want = f"types for the columns that differ between files ({error})"
        raise SpecError([Problem(f"{field}.options.types", None, want)]) from error
    if unknown := [name for name in types if name not in shared.names]:
        want = f"one of {', '.join(shared.names)} ({first})"
        raise SpecError([Problem(f"{field}.options.types", name, want) for name in unknown])
    return pa.schema([pa.field(each.name, _kept(each.type)) for each in shared])


def told_types(table: pa.Table) -> pa.Schema:
    """Return columns with types that hold what is in them: integers that may be missing as NaN."""
    return pa.schema(
        [
            (each.name, pa.float64() if _lacks(each.type, some, pa.types.is_integer) else each.type)
            for each, some in zip(table.schema, table.columns, strict=True)
        ]
    )


def refuse_missing(table: pa.Table) -> None:
    """Refuse values that are missing in a column that has no word for it.

    As NaN they would make floats of the others here, and there would be integers where none is
    missing: a batch's type would hang on which rows are in it.

    Raises:
        ValueError: naming the column, and what to do.
    """
    for each, some in zip(table.schema, table.columns, strict=True):
        for is_kind, other in ((pa.types.is_integer, "float64"), (pa.types.is_boolean, "string")):
            if _lacks(each.type, some, is_kind):
                hint = f"options.types: {{{each.name}: {other}}} has a word for that"
                raise ValueError(f"no value in column {each.name} of type {each.type}; {hint}")


def _lacks(
    kind: pa.DataType, column: pa.ChunkedArray, is_kind: Callable[[pa.DataType], bool]
) -> bool:
    return is_kind(kind) and column.null_count > 0


def declared(types: Mapping[str, ColumnType]) -> pa.Schema | None:
    """Return the columns whose types the TrainingRun says; None where it says none."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in types.items()]) if types else None


def _as_said(schema: pa.Schema, types: Mapping[str, ColumnType]) -> pa.Schema:
    """Return columns with the types that the TrainingRun says, whatever a file's lines tell."""
    return pa.schema(
        [
            (each.name, _ARROW[types[each.name]] if each.name in types else each.type)
            for each in schema
        ]
    )


def _kept(found: pa.DataType) -> pa.DataType:
    """Return the type of a column; one without a value in the first lines may hold anything."""
    return pa.string() if pa.types.is_null(found) else found
