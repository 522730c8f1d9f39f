"""Runs the first rows of a dataset through its functions: sizes, types, and what fails."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.auto_shuffle import num_sorted_labels
from trainshed.data.sampler.dataset_plan import ROW_BYTES
from trainshed.data.sampler.function import with_types
from trainshed.data.sampler.sizes import Measured
from trainshed.data.sources.apply_functions import augment, settled, transform
from trainshed.data.sources.casts import common_type
from trainshed.data.sources.collate import collate
from trainshed.data.sources.column_arrays import (
    Columns,
    is_nothing,
    is_text,
    nbytes,
    num_rows,
    of_one_shape,
    say_columns,
)
from trainshed.data.sources.dataset_files import read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.feed_types import check_dtype, place_in
from trainshed.data.sources.formats.shared_types import spread_out
from trainshed.data.sources.fragment_reader import first_rows, reading
from trainshed.failures import InfrastructureError
from trainshed_api.data import ALL_COLUMNS
from trainshed_api.errors import Problem, SpecError, no_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function

Made = TypeVar("Made")
# What of a column is trained on, or made something of that is.
Takes = Literal["numbers", "text", "anything"]

SAMPLE_ROWS = 32
# Rows differ along a dataset: as many places are looked at, at all but the first with fewer rows.
SAMPLE_PLACES = 8
PLACE_ROWS = 8
# One after the other at a place, at which nothing more is looked at.
MOST_BAD = 100


def measure(  # noqa: PLR0913, PLR0917 - a dataset, what it is for, and what is bad in it
    draft: DatasetPlan,
    source: Source,
    seed: int,
    takes: Takes,
    told: list[BadRecordList],
    label: str,
) -> tuple[Measured, Columns | None]:
    """Run a few rows through all functions: what fails here would fail later, on every worker.

    Fragments may have no row, or none that is chosen: where no place has one there is no sample.
    told: grows by what is bad among them and may be left out. label: the column of labels.
    """
    fragments = source.fragments
    places = [fragments[place] for place in spread_out(len(fragments), SAMPLE_PLACES)]
    looked = [
        _transformed(draft, fragment, PLACE_ROWS if place else SAMPLE_ROWS, told)
        for place, fragment in enumerate(places)
    ]
    keeps_rows = all(num_rows(each.columns) == each.read for each in looked)
    read_bytes = max((each.read_bytes for each in looked), default=0.0)
    growth = 1.0 if draft.is_grouped else _growth(looked)
    grouped = tuple(each.held_bytes for each in looked if draft.is_grouped and each.held_bytes)
    looked = [each for each in looked if num_rows(each.columns)]
    if told and not looked:
        expected = f"rows that can be used: none of {len(places)} places has one"
        raise SpecError([Problem(draft.field, told[0].first[0].say(), expected)])
    if not looked:
        return Measured(ROW_BYTES, keeps_rows, read_bytes=read_bytes, grouped=grouped), None
    # These tell types alone: sizes are those of the first rows of fragments.
    inside = [
        _transformed(draft, fragment, PLACE_ROWS, [])
        for fragment in (_places_inside(places) if draft.transforms or draft.augments else ())
    ]
    typed = [*looked, *(each for each in inside if num_rows(each.columns))]
    types = _types_of([each.columns for each in typed])
    draft = replace(draft, transforms=with_types(draft.transforms, types))
    typed = [
        each._replace(columns=_settled(draft, each.fragment, each.columns, draft.transforms))
        for each in typed
    ]
    samples = [_augmented(draft, each, seed) for each in typed]
    augmented_types = _types_of(samples)
    draft = replace(draft, augments=with_types(draft.augments, augmented_types))
    samples = [
        _settled(draft, each.fragment, sample, draft.augments)
        for each, sample in zip(typed, samples, strict=True)
    ]
    seen = replace(draft, changes_rows=draft.changes_rows or not keeps_rows)
    for each, sample in zip(looked, samples, strict=False):  # not those inside of fragments
        _check_columns(draft, sample, takes)  # a missing value makes another type of a column
        _check_values(draft, seen, each.fragment, sample)
        _try_collate(draft, each.fragment, sample, seed)
    elsewhere = tuple(each.row_bytes for each in looked[1:])
    row_bytes = looked[0].row_bytes
    # The first one imports what it needs.
    row_seconds = min(each.seconds / num_rows(each.columns) for each in looked)
    measured = Measured(
        row_bytes,
        keeps_rows,
        elsewhere,
        read_bytes,
        growth,
        grouped,
        row_seconds,
        types,
        augmented_types,
        tuple((name, array.dtype.name) for name, array in samples[0].items()),
        num_sorted_labels([each.columns[label] for each in looked if label in each.columns]),
    )
    return measured, samples[0]


def _types_of(tables: Sequence[Columns]) -> tuple[tuple[str, str], ...]:
    """Return the types of columns of numbers, each of all tables that have the column."""
    names = dict.fromkeys(name for table in tables for name in table)
    types = {}
    for name in names:
        arrays = [table[name] for table in tables if name in table]
        # Where nothing but NaN was seen the others may be texts.
        if (kind := common_type(arrays)) and not all(map(is_nothing, arrays)):
            types[name] = kind
    return tuple(types.items())


def _settled(
    draft: DatasetPlan, fragment: Fragment, columns: Columns, functions: Sequence[Function]
) -> Columns:
    """Return first rows of a fragment in the types that they have together with all others."""
    for function in functions:
        columns = _sampled(draft, fragment, partial(settled, columns, function))
    return columns


def _augmented(draft: DatasetPlan, seen: _Seen, seed: int) -> Columns:
    rows = np.arange(num_rows(seen.columns), dtype=np.int64)
    return _sampled(
        draft, seen.fragment, lambda: augment(seen.columns, draft.augments, rows, seed, 0)
    )


def _growth(looked: Sequence[_Seen]) -> float:
    """Return how many rows came of one that was read, where more did than were read."""
    known = [(num_rows(each.columns), each.read) for each in looked if each.read is not None]
    made, of = sum(made for made, _ in known), sum(read for _, read in known)
    return max(1.0, made / of) if of else 1.0


def check_alike(
    mix: DatasetPlan, samples: Mapping[str, Columns | None], seed: int, takes: Takes
) -> None:
    """Refuse datasets of a mix whose first rows do not go into one batch."""
    known = [(name, columns) for name, columns in samples.items() if columns is not None]
    if not known:
        return
    first, expected = known[0]
    for name, columns in known[1:]:
        one, other = map(
            say_columns, of_one_shape([expected, columns]) if mix.collate else (expected, columns)
        )
        if one != other:
            field = f"{mix.field}.read.mix.{name}"
            alike = f"those of {first}, {one}: rows of a mix go into one batch"
            raise SpecError([Problem(field, f"columns {other}", alike)])
    _check_columns(mix, expected, takes)
    parts = {part.name: part for part in mix.parts}
    for name, columns in known:
        if source := parts[name].source:
            _check_values(mix, parts[name], source.fragments[0], columns)
    first_source = parts[first].source
    assert first_source
    _try_collate(mix, first_source.fragments[0], expected, seed)


def _check_values(
    plan: DatasetPlan, read: DatasetPlan, fragment: Fragment, columns: Columns
) -> None:
    """Refuse values of first rows of a fragment that types of `feed.dtypes` cannot hold.

    read: of the dataset that the fragment is of, which `plan` may mix.
    """
    source = read.source
    assert source
    rows = np.arange(num_rows(columns), dtype=np.int64)
    problems = []
    for name, array in columns.items():
        # A function of feed.collate looks by itself.
        if array.dtype.kind not in "iufc" or plan.collate or not plan.spec.feed.dtypes:
            continue
        try:
            check_dtype(
                plan, name, array, rows, lambda _, row: place_in(read, source, fragment, row)
            )
        except DataError as error:
            problems.append(_place(plan, str(error)))
    if problems:
        raise SpecError(problems)


def _try_collate(plan: DatasetPlan, fragment: Fragment, columns: Columns, seed: int) -> None:
    """Run the function of `feed.collate`, where there is one, over first rows of a fragment."""
    if plan.collate:
        ids = np.arange(num_rows(columns), dtype=np.int64)
        _sampled(plan, fragment, lambda: collate(plan, columns, ids, seed, 0))


def _places_inside(places: Sequence[Fragment]) -> list[Fragment]:
    """Return the middle and the last row group of fragments, as far as these are few."""
    inside = [
        replace(fragment, row_groups=(group,), rows=None)
        for fragment in places
        for group in dict.fromkeys(
            (fragment.row_groups[len(fragment.row_groups) // 2], fragment.row_groups[-1])
            if len(fragment.row_groups) > 1
            else ()
        )
    ]
    return inside[: SAMPLE_PLACES - len(places)]


class _Seen(NamedTuple):
    """First rows of a fragment after the transforms, and whether these kept all that were read.

    read: of how many rows they are; None where bad ones are left out.
    row_bytes, read_bytes: mean size of a row that is held, and of one before the transforms.
    held_bytes: of a row that was read, or of what was made of it where that is more.
    seconds: that the transforms took.
    """

    fragment: Fragment
    columns: Columns
    read: int | None
    row_bytes: float
    read_bytes: float
    held_bytes: float
    seconds: float


def _transformed(
    draft: DatasetPlan, fragment: Fragment, rows: int, told: list[BadRecordList]
) -> _Seen:
    """Look at the first rows of a fragment."""
    assert draft.source
    scan = draft.source.scan
    num_read: int | None = None
    begun = time.perf_counter()
    if scan.skips_bad:
        columns = _sampled(draft, fragment, lambda: _good_rows(draft, fragment, rows, told))
        seconds = time.perf_counter() - begun
        bare = replace(draft, transforms=())
        read = _sampled(draft, fragment, lambda: _good_rows(bare, fragment, rows, []))
    else:
        read = _sampled(
            draft, fragment, lambda: read_sample(scan, fragment, draft.spec.read.columns, rows)
        )
        begun = time.perf_counter()
        columns = _sampled(draft, fragment, lambda: transform(read, draft.transforms))
        seconds = time.perf_counter() - begun
        num_read = num_rows(read)
    row_bytes, read_bytes = (nbytes(each) / max(num_rows(each), 1) for each in (columns, read))
    if draft.is_grouped and not scan.skips_bad:
        # All rows of a group are in memory, however many the function returns.
        row_bytes = max(row_bytes, read_bytes)
    held = max(nbytes(columns), nbytes(read)) / max(num_rows(read), 1)
    return _Seen(fragment, columns, num_read, row_bytes, read_bytes, held, seconds)


class _NothingGoodError(Exception):
    """Too many consecutive rows are bad."""


def _good_rows(
    draft: DatasetPlan, fragment: Fragment, rows: int, told: list[BadRecordList]
) -> Columns:
    """Return first rows of a fragment that are good; told: what of them is not."""
    last: list[BadRecordList] = []

    def tell(known: BadRecordList) -> None:
        last[:] = [known]
        if known.rows >= MOST_BAD:
            raise _NothingGoodError

    try:
        return first_rows(replace(reading(draft), tell=tell), fragment, rows)
    except _NothingGoodError:
        return {}
    finally:
        told += last


def bad_notes(field: str, told: Sequence[BadRecordList]) -> Iterator[str]:
    """Yield what is bad among the rows that were looked at, in one note."""
    if told:
        rows, first = sum(each.rows for each in told), told[0].first[0].say()
        yield f"{field}: {rows} of the rows that were looked at are bad and left out: {first}"


def _sampled(draft: DatasetPlan, fragment: Fragment, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except InfrastructureError:
        raise
    except (DataError, OSError, pa.ArrowException) as error:
        raise SpecError([_place(draft, str(error))]) from error
    except Exception as error:  # a function of the user's may raise anything
        expected = f"functions that accept the first rows of {fragment.path}"
        got = f"{type(error).__name__}: {error}"
        raise SpecError([Problem(draft.field, got, expected)]) from error


def _place(draft: DatasetPlan, message: str) -> Problem:
    """Return the problem at the field that a message begins with, else at the dataset."""
    field, colon, expected = message.partition(": ")
    if colon and field.startswith(draft.field):
        return Problem(field, None, expected)
    return Problem(draft.field, None, message)


def _check_columns(draft: DatasetPlan, columns: Columns, takes: Takes) -> None:
    problems = []
    for name, array in columns.items():
        if takes == "anything" or (takes == "text" and is_text(array)):
            continue
        if array.dtype.kind in "OUSMm":
            kind = type(array.flat[0]).__name__ if array.size else str(array.dtype)
            expected = (
                "numbers; turn it into some by a transform, make tensors of it by feed.collate, or "
                "leave it out with read.columns"
            )
            problems.append(Problem(f"{draft.field}: column {name}", f"values of {kind}", expected))
    problems += [
        Problem(f"{draft.field}.feed.dtypes.{name}", None, no_column(name, columns))
        for name in draft.spec.feed.dtypes
        if name not in (*columns, ALL_COLUMNS)
    ]
    if problems:
        raise SpecError(problems)
