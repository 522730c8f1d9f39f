"""Columns and types that all files of a dataset share: from their first rows, or the spec.

Every task uses them: from its own lines one might infer integers where another does not.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sources.arrow_columns import becomes_floats
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.unified_schema import (
    FileSchema,
    as_texts,
    refuse_twins,
    unified_schema,
)
from trainshed_api.errors import Problem, SpecError, one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sources.listing import Found
    from trainshed_api.formats import ColumnType

# Number of files to inspect, from first to last: files of one folder may differ.
LOOKED_AT = 8
# Number of files of lines to inspect: all, or a sample of them, which is the same in each attempt.
MOST_LOOKED_AT = 1000
# Bytes of each of these, except for the few above.
SHALLOW_BYTES = 2**16
FILES_AT_ONCE = 16
REMEDY = "Set one type that holds both there, or write one type"

_TWINS = "Rename one of them, in csv by options.names"
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
    return [files[place] for place in spread_out(len(files), LOOKED_AT)]


def spread_out(count: int, most: int) -> list[int]:
    """Return up to `most` numbers below `count`, from the first to the last."""
    return sorted({round(number) for number in np.linspace(0, count - 1, most)})


def drawn(count: int) -> list[int]:
    """Return the numbers below `count` of the files to inspect, the same in each attempt."""
    some = np.random.default_rng(0).permutation(count)[:MOST_LOOKED_AT].tolist()
    return sorted({*some, *spread_out(count, LOOKED_AT)})


def shared_schema(
    files: Sequence[Found],
    told: Callable[[Found, int | None], pa.Schema | None],
    types: Mapping[str, ColumnType],
    field: str,
) -> Shared:
    """Return the columns of all files, with types that hold the values of each.

    Args:
        files: at least one.
        told: returns the columns of a file from its first lines, as `told_types` does, and at most
            this many bytes; None without a good line.
        types: from the TrainingRun.
        field: the spec's field to name in errors.

    Raises:
        SpecError: if a column has no common type, a type is for no column, or no file has a good
            line.
    """
    filled = [number for number, file in enumerate(files) if file.bytes]
    if not filled:
        raise SpecError([Problem(f"{field}.path", files[0].where, "files with at least one row")])

    def look(file: Found, most: int | None) -> FileSchema | None:
        try:
            schema = told(file, most)
        except SpecError:
            if most is None:
                raise
            return None  # reported when its rows are read
        return None if schema is None else FileSchema(file.where, schema)

    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        seen = pool.map(look, *zip(*_looked_at(files, filled), strict=True))
        schemas = [each for each in seen if each is not None]
    if not schemas:
        expected = "a row that can be read among the first ones of at least one file"
        raise SpecError([Problem(f"{field}.path", files[0].where, expected)])
    for each in schemas:
        refuse_twins(each, f"{field}.path", _TWINS)
    shared = unified_schema(_as_said(schemas, types), f"{field}.options.types", REMEDY)
    if unknown := [name for name in types if name not in shared.names]:
        raise SpecError(
            [
                Problem(f"{field}.options.types", name, one_of(name, shared.names))
                for name in unknown
            ]
        )
    floats = {
        each.name
        for each in shared
        if becomes_floats(each.type) and each.nullable and types.get(each.name) in {None, "float64"}
    }
    # Without a value in the first lines a column may have any type.
    schema = pa.schema(
        [pa.field(each.name, as_texts(each.type, pa.types.is_null)) for each in shared]
    )
    return Shared(schema, tuple(sorted(floats)))


def _looked_at(files: Sequence[Found], filled: Sequence[int]) -> list[tuple[Found, int | None]]:
    """Return which files to inspect, and how many bytes of each; None for the usual number.

    filled: numbers of the files that are not empty.
    """
    whole = {*spread_out(len(filled), LOOKED_AT)}
    return [
        (files[filled[place]], None if place in whole else SHALLOW_BYTES)
        for place in drawn(len(filled))
    ]


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
    """
    try:
        return parse(schema)
    except (ValueError, pa.ArrowTypeError):
        lacking = {each.name for each in schema if pa.types.is_integer(each.type)} & {*floats}
        if not lacking:
            raise
    return parse(
        pa.schema(
            [each.with_type(pa.float64()) if each.name in lacking else each for each in schema]
        )
    )


def refuse_rounded(
    table: pa.Table,
    types: Mapping[str, ColumnType],
    written: Callable[[str, NDArray[np.int64]], Iterable[object]],
) -> None:
    """Refuse numbers that a column of floats changes, see `refuse_inexact`.

    Args:
        table: rows.
        types: from the TrainingRun; a column of float64 there may round, but not to infinity.
        written: returns the values of a column in rows as the file has them, with exact integers.

    Raises:
        pyarrow.ArrowNotImplementedError: naming the column. No single record is bad.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        may_round = types.get(name) == "float64"
        # Faster than Arrow's min_max.
        doubtful = [
            np.abs(each.to_numpy()) >= (math.inf if may_round else _most_exact(each.type))
            for each in _floats_in(column)
        ]
        if not any(each.any() for each in doubtful):
            continue
        is_flat = pa.types.is_floating(column.type)
        rows = np.flatnonzero(doubtful[0]) if is_flat else np.arange(len(column))
        for value in written(name, rows):
            refuse_inexact(value, column.type if is_flat else pa.float64(), name)


def refuse_inexact(value: object, kind: pa.DataType, column: str) -> None:
    """Refuse an integer that a type of floats rounds, or a number that is infinite as float32.

    Args:
        value: a number, or lists and objects of numbers.
        kind: the type of floats.
        column: to name.

    Raises:
        pyarrow.ArrowNotImplementedError: naming the column and the number.
    """
    if isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            refuse_inexact(each, kind, column)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    try:
        with np.errstate(over="ignore"):
            held = float(np.float32(value)) if pa.types.is_float32(kind) else float(value)
    except OverflowError:
        held = math.inf
    if held == value or (isinstance(value, float) and not math.isinf(held)):
        return
    raise inexact(value, "float32" if pa.types.is_float32(kind) else "float64", column)


def inexact(value: object, wanted: str, column: str) -> pa.ArrowNotImplementedError:
    """Return the refusal of a number that a type of floats does not hold."""
    return pa.ArrowNotImplementedError(
        f"column {column}: got {value}; expected a number that {wanted} holds, integers exactly. "
        "Write such numbers as texts, or set float64 for the column in options.types, which rounds "
        "integers."
    )


def _most_exact(kind: pa.DataType) -> int:
    return 2**24 if pa.types.is_float32(kind) else MOST_EXACT


def _floats_in(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yield the floats of a column, also those in lists and in fields of structs."""
    if pa.types.is_floating(column.type):
        yield column
    elif pa.types.is_struct(column.type):
        for each in column.flatten():
            yield from _floats_in(each)
    elif pa.types.is_list(column.type):
        yield from _floats_in(pc.list_flatten(column))


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


def _as_said(files: Sequence[FileSchema], types: Mapping[str, ColumnType]) -> list[FileSchema]:
    """Return columns with the types of the TrainingRun, whatever the lines suggest.

    Except that booleans as floats are nullable booleans, and that times are texts beside texts.
    """
    told: dict[str, set[pa.DataType]] = {}
    for _, schema in files:
        for each in schema:
            told.setdefault(each.name, set()).add(each.type)

    def said(each: pa.Field) -> pa.Field:
        kind, others = types.get(each.name), told[each.name]
        if kind == "float64" and others - {pa.null()} == {pa.bool_()}:
            return pa.field(each.name, pa.bool_())
        if kind:
            return pa.field(each.name, _ARROW[kind], nullable=False)
        if pa.types.is_temporal(each.type) and pa.string() in others:
            return each.with_type(pa.string())
        if pa.types.is_date(each.type):
            return each.with_type(next(filter(pa.types.is_timestamp, others), each.type))
        return each

    return [FileSchema(path, pa.schema(map(said, schema))) for path, schema in files]
