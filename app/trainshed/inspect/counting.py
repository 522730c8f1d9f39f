"""Counts rows: in all, by file, or by the values of a column."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sources.column_arrays import num_rows
from trainshed.data.sources.errors import DataError
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.reading import (
    AHEAD,
    CHUNK_ROWS,
    check_columns,
    check_known,
    chunks,
    in_chunks,
    of_fragments,
    of_parts,
)
from trainshed_api.errors import Problem, SpecError, show_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.data.sampler.bad_records import Tell
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.data.sources.fragment_reader import Reading
    from trainshed.inspect.inputs import RowInput

    # Called with each fragment whose rows are known.
    Told = Callable[[Fragment], None]

# Maximum number of different values.
MOST_KINDS = 100
# Bytes that are valid text are shown as text; None is a missing value.
Kind = str | bytes | int | float | bool | None


class TooManyValuesError(DataError):
    """A column with more values than `count_by` counts."""


def count(given: RowInput | GeneratedRows, processes: int, told: Told) -> int:
    """Return how many rows there are after the transforms.

    Raises:
        DataError: if rows cannot be read or transformed.
        InfrastructureError: if the storage does not return them.
    """
    if isinstance(given, GeneratedRows):
        return given.count()
    return sum(rows for _, rows in _counts(given, given.source.fragments, processes, told))


def count_by_file(given: RowInput | GeneratedRows, processes: int, told: Told) -> dict[str, int]:
    """Return the rows of each file, by its name below SOURCE.

    Raises:
        SpecError: for a selection of rows across files, and for rows that belong to no
            file.
        DataError: as `count` does.
        InfrastructureError: as `count` does.
    """
    if isinstance(given, GeneratedRows):
        expected = "rows that are read from files. Count without --by-file"
        got = f"rows that {given.maker} makes"
        raise SpecError([Problem("--by-file", got, expected)])
    found = dict.fromkeys((file.path for file in given.source.files), 0)
    names = list(found)
    if given.source.scan.selection.holdout and any(each.more for each in given.source.fragments):
        expected = "none, as it selects rows across files. Count without --by-file"
        raise SpecError([Problem("--by-file", "a dataset with read.holdout", expected)])
    singles = [single for each in given.source.fragments for single in _singles(each)]
    for fragment, rows in _counts(given, singles, processes, told):
        found[names[fragment.file]] += rows
    return found


def count_by(
    given: RowInput | GeneratedRows, column: str, processes: int, told: Told
) -> dict[Kind, int]:
    """Return the rows with each value of a column, by value; labels by class name.

    Raises:
        SpecError: if there is no such column.
        TooManyValuesError: if there are more than 100 values.
        DataError: if a row has more than one value, or as `count` does.
        InfrastructureError: as `count` does.
    """
    check_columns(given, "--by", [column])
    found: Counter[Kind] = Counter()
    given = given if isinstance(given, GeneratedRows) else given.unrounded()
    call = functools.partial(_kinds, column)
    for kinds in of_parts(given, [column], call, processes, told):
        found.update(kinds)
        _check_few(found, column)
    classes = () if isinstance(given, GeneratedRows) else given.source.scan.classes
    # A transformed label is not an index of folders.
    if column == "label" and classes and not given.transforms:
        return {classes[int(kind or 0)]: found[kind] for kind in sorted(found, key=_place)}
    return {kind: found[kind] for kind in sorted(found, key=_place)}


def _counts(
    given: RowInput, fragments: Sequence[Fragment], processes: int, told: Told
) -> Iterator[tuple[Fragment, int]]:
    how = given.reading(CHUNK_ROWS)
    schema = how.scan.schema
    if not given.transforms and not how.scan.skips_bad:
        if not how.scan.selection and all(fragment.rows is not None for fragment in fragments):
            yield from ((fragment, fragment.rows or 0) for fragment in fragments)
            return
        if schema is not None and not how.columns:
            how = replace(how, columns=(lightest(schema),))  # any column gives the count
    call = functools.partial(_rows, in_chunks(given, how))
    counted = of_fragments(given, call, fragments, processes, AHEAD)
    for fragment, rows in zip(fragments, counted, strict=True):
        told(fragment)
        yield fragment, rows


def lightest(schema: pa.Schema) -> str:
    """Return a column that is cheap to read: of a video the frame number."""
    names: list[str] = schema.names
    numbers = [name for name in names if pa.types.is_primitive(schema.field(name).type)]
    return [*numbers, *names][0]


def _rows(how: Reading, fragment: Fragment, tell: Tell | None) -> int:
    scan = how.scan
    if fragment.rows is not None and not (how.transforms or scan.selection or scan.skips_bad):
        return fragment.rows
    return sum(num_rows(columns) for columns in chunks(how, fragment, tell))


def _kinds(column: str, tables: Iterable[Columns]) -> Counter[Kind]:
    found: Counter[Kind] = Counter()
    for columns in tables:
        check_known("--by", [column], list(columns))
        found.update(_plain(columns[column], column))
        _check_few(found, column)
    return found


def _plain(array: Array, column: str) -> Iterator[Kind]:
    """Yield the values of a column as hashable values."""
    values = array.tolist() if array.ndim == 1 else [array]
    if array.dtype.kind in "mM":
        values = [None if np.isnat(value) else str(value) for value in array]
    for value in values:
        if isinstance(value, bytes):
            try:
                yield value.decode()
            except UnicodeDecodeError:  # and distinguishable from text
                yield value
        elif value is None or isinstance(value, (str, int, float)):
            yield None if value != value else value  # noqa: PLR0124 - NaN is not itself
        else:
            raise DataError(
                f"--by {column}: rows hold {type(value).__name__}s there: name a column with one "
                "number or text a row"
            )


def _check_few(found: Counter[Kind], column: str) -> None:
    if len(found) > MOST_KINDS:
        some = ", ".join(show_value(kind) for kind in list(found)[:3])
        raise TooManyValuesError(
            f"--by {column}: more than {MOST_KINDS} values ({some}, ...): name a column with "
            "fewer, such as labels"
        )


def _place(kind: Kind) -> tuple[bool, bool, float, str]:
    """Return a sort key: numbers by size, texts alphabetically, missing values last."""
    is_text = isinstance(kind, (str, bytes))
    number = 0.0 if isinstance(kind, (str, bytes)) or kind is None else float(kind)
    return kind is None, is_text, number, str(kind)


def _singles(fragment: Fragment) -> list[Fragment]:
    """Return a fragment of several files as one fragment per file."""
    paths = fragment.paths
    if len(paths) == 1:
        return [fragment]
    rows = 1 if fragment.rows == len(paths) else None
    size = fragment.num_bytes // len(paths)
    return [
        replace(
            fragment, path=path, file=fragment.file + number, more=(), rows=rows, num_bytes=size
        )
        for number, path in enumerate(paths)
    ]
