"""Reads parts of a dataset: the same function in a Ray Data task and in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.bad_records import BadRecord, BadRecordList, Tell
from trainshed.data.sampler.fragments import Scan
from trainshed.data.sampler.permutation import Indices, RowRange
from trainshed.data.sampler.stage_time import COUNT, READ, key_of
from trainshed.data.sources.apply_functions import augment, transform
from trainshed.data.sources.bad_record_filter import good_rows
from trainshed.data.sources.column_arrays import Columns, cut_rows, join, num_rows, take_rows
from trainshed.data.sources.dataset_files import place_of, read_fragment, read_records
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.filters import columns_to_read, numbered, selected
from trainshed.data.sources.stage_timer import STAGE_TIMER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function


@dataclass(frozen=True)
class Reading:
    """How to read rows: sent to each task, and small for that reason.

    Args:
        field: the dataset's field, for errors.
        columns: to read; empty for all.
        transforms: in order.
        augments: in order.
        chunk_rows: maximum rows to decode and transform at once.
        scan: how to read the files.
        changes_rows: whether transforms may remove or add rows.
        seed: the run's seed.
        epoch: 0-based; None for rows without augmentation.
        tell: called with bad records, if these are skipped.
        checks_ends: whether to check for more rows than were counted: an earlier attempt may have
            counted with other transforms, or other values in a condition. Each fragment is then
            read to its end in each epoch.
    """

    field: str
    columns: tuple[str, ...]
    transforms: tuple[Function, ...]
    augments: tuple[Function, ...]
    chunk_rows: int
    scan: Scan
    changes_rows: bool = False
    seed: int = 0
    epoch: int | None = None
    tell: Tell | None = None
    checks_ends: bool = False


@dataclass(frozen=True)
class Part:
    """Rows [start, stop) of a fragment, whose first row has the id `first`.

    Its first row is at `place` among all rows to read; is_last: whether it ends the fragment, by
    the
    fragment's row count.
    """

    fragment: Fragment
    first: int
    start: int
    stop: int
    place: int
    is_last: bool = False


Table = tuple[Columns, Indices]
# Positions of the wanted rows among the rows [start, stop) to read, relative to `start`.
Choice = Callable[[int, int], slice | Indices]


def everything(start: int, stop: int) -> slice:  # noqa: ARG001 - a Choice
    """Choose all rows."""
    return slice(None)


def reading(plan: DatasetPlan, seed: int = 0, epoch: int | None = None) -> Reading:
    """Return how to read the rows of a dataset; augmented if an epoch is given."""
    scan = plan.source.scan if plan.source else Scan()  # unused for a function's rows
    return Reading(
        plan.field,
        plan.spec.read.columns,
        plan.transforms,
        plan.augments,
        plan.chunk_rows,
        scan,
        plan.is_found_after,
        seed,
        epoch,
        plan.tell,
        checks_ends=plan.may_be_others and plan.kept is not None,
    )


def parts(plan: DatasetPlan, pieces: Iterable[RowRange], place: int = 0) -> list[Part]:
    """Return the ranges with everything needed to read them, from the first one's position."""
    assert plan.source
    return parts_of(plan.source.fragments, plan.first_ids, pieces, place)


def parts_of(
    fragments: Sequence[Fragment], first_ids: Indices, pieces: Iterable[RowRange], place: int = 0
) -> list[Part]:
    """Return the same for any fragments, with the ids of their first rows."""
    found = []
    for piece in pieces:
        fragment, first = fragments[piece.fragment], int(first_ids[piece.fragment])
        found.append(Part(fragment, first, piece.start, piece.stop, place, piece.is_last))
        place += piece.rows
    return found


def as_kept(how: Reading) -> Reading:
    """Return how to read rows that were cached in parquet after the transforms."""
    kept = replace(how, columns=(), transforms=(), scan=Scan())
    return replace(kept, changes_rows=False, checks_ends=False)


def read_whole(how: Reading, fragment: Fragment) -> Columns:
    """Return a fragment's rows after the transforms; no column without rows.

    Raises:
        DataError: if a transform returned different columns for some rows.
    """
    chunks = list(_chunks(how, fragment, how.chunk_rows, transformed=True))
    otherwise = f"{how.field}.transforms: rows of {fragment.path} do not fit together"
    return join(chunks, otherwise) if chunks else {}


def read_rows(how: Reading, fragment: Fragment, first: int) -> Iterator[Table]:
    """Yield all rows of a fragment after the transforms, augmented, with their ids from `first`."""
    for columns in _chunks(how, fragment, how.chunk_rows, transformed=True):
        ids = np.arange(first, first + num_rows(columns), dtype=np.int64)
        yield augmented(how, columns, ids), ids
        first += len(ids)


def first_rows(how: Reading, fragment: Fragment, rows: int) -> Columns:
    """Return at least this many of a fragment's first rows after the transforms, if possible."""
    held: list[Columns] = []
    for chunk in _chunks(how, fragment, min(rows, how.chunk_rows), transformed=True):
        held.append(chunk)
        if sum(map(num_rows, held)) >= rows:
            break
    return join(held) if held else {}


def count_rows(how: Reading, fragment: Fragment) -> int:
    """Return the number of rows of a fragment after the transforms; holds one chunk."""
    if not how.changes_rows:
        how = replace(how, columns=_any_column(how))
    chunks = _chunks(how, fragment, how.chunk_rows, transformed=how.changes_rows)
    with STAGE_TIMER.whole(key_of(how.field, COUNT)):
        return sum(num_rows(chunk) for chunk in chunks)


def _any_column(how: Reading) -> tuple[str, ...]:
    """Return one column of csv or parquet to read, of integers if there is one; else all.

    Converting values dominates the time of csv. Errors in the other columns are reported when they
    are read.
    """
    schema = how.scan.schema
    if how.scan.format not in {"csv", "parquet"} or schema is None:
        return how.columns
    names = how.columns or tuple(schema.names)
    integers = [name for name in names if pa.types.is_integer(schema.field(name).type)]
    return tuple((integers or names)[:1])


class FragmentReader:
    """Reads fragments in chunks, and continues in the same fragment."""

    def __init__(self) -> None:
        self._open: tuple[object, ...] = ()
        self._chunks: Iterator[Columns] = iter(())
        self._begin = 0

    def chunks(self, how: Reading, part: Part) -> Iterator[tuple[int, Columns]]:
        """Yield the chunks with a part's rows, each with its first row's position in the fragment.

        Chunks are transformed if that changes the number of rows.

        Raises:
            DataError: if the fragment has fewer or more rows than before.
        """
        # A fragment's first few rows do not need a whole decoded chunk.
        told = not (how.changes_rows or how.scan.selection)
        rows = min(how.chunk_rows, part.stop) if told else how.chunk_rows
        wanted = (how.field, part.fragment, how.columns, rows)
        if self._open != wanted or part.start < self._begin:
            self._open, self._begin = wanted, 0
            self._chunks = _chunks(how, part.fragment, rows, transformed=how.changes_rows)
        for chunk in self._chunks:
            begin = self._begin
            self._begin += num_rows(chunk)
            if self._begin >= part.stop and part.is_last and how.checks_ends:
                has_more = self._begin > part.stop or next(self._chunks, None) is not None
                self._open = ()
                if has_more:
                    raise _other_rows(how, part, f"more rows than the {part.stop} that it had")
            if self._begin > part.start:
                yield begin, chunk
            if self._begin >= part.stop:
                break
        else:
            self._open, rows = (), self._begin
            if rows < part.stop:
                raise _other_rows(how, part, f"{rows} rows where it had more")
        if self._begin == part.fragment.rows:  # closes the file
            self._open, self._chunks = (), iter(())


def _other_rows(how: Reading, part: Part, has: str) -> DataError:
    return DataError(
        f"{how.field}: {part.fragment.path} has {has}: files must not change while a run "
        "reads them, and transforms must keep the same rows each time"
    )


def _chunks(
    how: Reading, fragment: Fragment, chunk_rows: int, *, transformed: bool
) -> Iterator[Columns]:
    wanted = columns_to_read(how.scan, how.columns)
    if how.scan.skips_bad:
        assert transformed
        yield from _good_chunks(how, fragment, chunk_rows, wanted)
        return
    chunks = read_fragment(how.scan, fragment, wanted, chunk_rows)
    if how.scan.selection:
        chunks = selected(chunks, how.scan, fragment, how.columns)
    chunks = STAGE_TIMER.each(key_of(how.field, READ), chunks, num_rows)
    for chunk in chunks:
        # A function need not handle empty input, and its result would have other types.
        if num_rows(chunk):
            given = transform(chunk, how.transforms) if transformed else chunk
            if num_rows(given):
                yield given


def _good_chunks(
    how: Reading, fragment: Fragment, chunk_rows: int, wanted: Sequence[str]
) -> Iterator[Columns]:
    assert how.tell
    records = read_records(how.scan, fragment, wanted, chunk_rows)
    found = STAGE_TIMER.each(
        key_of(how.field, READ),
        numbered(records, how.scan, fragment, how.columns),
        lambda each: 0 if isinstance(each, BadRecord) else num_rows(each[0]),
    )
    begin = fragment.span[0] if fragment.span else (*fragment.row_groups, 0)[0]
    told = BadRecordList(how.field, (fragment.path, begin, fragment.skip))
    yield from good_rows(
        found, how.transforms, partial(place_of, how.scan, fragment), told, how.tell
    )


def read_parts(
    how: Reading,
    wanted: Iterable[Part],
    choice: Choice = everything,
    reader: FragmentReader | None = None,
) -> Iterator[Table]:
    """Yield (columns, positions in the dataset) of the parts' chosen rows after transforms.

    Args:
        how: reading options.
        wanted: the parts.
        choice: of their rows.
        reader: may already have read the rows before.

    Raises:
        DataError: if a transform changes the number of rows.
    """
    reader = reader or FragmentReader()
    for part in wanted:
        for begin, chunk in reader.chunks(how, part):
            start, end = max(begin, part.start), min(begin + num_rows(chunk), part.stop)
            moved = part.place - part.start
            chosen = choice(start + moved, end + moved)
            ids = np.arange(start + part.first, end + part.first, dtype=np.int64)[chosen]
            if len(ids):
                rows = take_rows(cut_rows(chunk, start - begin, end - begin), chosen)
                columns = rows if how.changes_rows else _transformed(how, rows, part.fragment)
                yield augmented(how, columns, ids), ids


def augmented(how: Reading, columns: Columns, ids: Indices) -> Columns:
    """Return the columns augmented for the reading's epoch.

    Args:
        how: of the dataset.
        columns: the table.
        ids: (rows,) positions in the dataset.
    """
    if how.epoch is None or not how.augments or not len(ids):
        return columns
    return augment(columns, how.augments, ids, how.seed, how.epoch)


def _transformed(how: Reading, chunk: Columns, fragment: Fragment) -> Columns:
    columns = transform(chunk, how.transforms)
    if num_rows(columns) != num_rows(chunk):
        raise DataError(
            f"{how.field}.transforms: {num_rows(columns)} rows were returned for {num_rows(chunk)} "
            f"of {fragment.path}, but all sampled rows were kept: filter rows by read.where, or "
            "set cache: objects or disk, which count the rows"
        )
    return columns
