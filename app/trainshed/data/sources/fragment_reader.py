"""Reading parts of a dataset: the same function in a Ray Data task and for torch's DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
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
from trainshed.data.sources.stage_timer import LEDGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function


@dataclass(frozen=True)
class Reading:
    """How rows are read: what each task is told, and small for that reason.

    Args:
        field: the dataset's field, for errors.
        columns: to read; empty for all.
        transforms: in their order.
        augments: in their order.
        chunk_rows: most rows that are decoded and transformed at once.
        scan: how the files are read.
        changes_rows: whether transforms may leave rows out, or make more of them.
        seed: the run's seed.
        epoch: 0-based; None for rows without augmentation.
        tell: called with what is bad, where that is left out.
        checks_ends: whether more rows than were counted are looked for: an earlier attempt may have
            counted with other transforms, or other values that choose rows. A fragment is read to
            its end for that, in each epoch.
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

    Its first row comes at `place` among all that are read; is_last: whether the fragment has no
    row after it, by its count.
    """

    fragment: Fragment
    first: int
    start: int
    stop: int
    place: int
    is_last: bool = False


Table = tuple[Columns, Indices]
# Which of the rows [start, stop) of those that are read are wanted, counted from `start`.
Choice = Callable[[int, int], slice | Indices]


def everything(start: int, stop: int) -> slice:  # noqa: ARG001 - a Choice
    """Choose all rows."""
    return slice(None)


def reading(plan: DatasetPlan, seed: int = 0, epoch: int | None = None) -> Reading:
    """Return how the rows of a dataset are read; augmented where an epoch is given."""
    scan = plan.source.scan if plan.source else Scan()  # of a function's rows nobody asks it
    return Reading(
        plan.field,
        plan.columns,
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
    """Return the pieces with all that is needed to read them, the first one's rows at a place."""
    assert plan.source
    return parts_of(plan.source.fragments, plan.first_ids, pieces, place)


def parts_of(
    fragments: Sequence[Fragment], first_ids: Indices, pieces: Iterable[RowRange], place: int = 0
) -> list[Part]:
    """Return the same of any fragments, with the ids that their first rows have."""
    found = []
    for piece in pieces:
        fragment, first = fragments[piece.fragment], int(first_ids[piece.fragment])
        found.append(Part(fragment, first, piece.start, piece.stop, place, piece.is_last))
        place += piece.rows
    return found


def as_kept(how: Reading) -> Reading:
    """Return how rows are read again that were kept in parquet after the transforms."""
    kept = replace(how, columns=(), transforms=(), scan=Scan())
    return replace(kept, changes_rows=False, checks_ends=False)


def read_whole(how: Reading, fragment: Fragment) -> Columns:
    """Return a fragment's rows after the transforms; no column where none is left.

    Raises:
        DataError: when a transform returned other columns for some of them than for others.
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
    """Return at least so many of a fragment's first rows after the transforms, if it has them."""
    held: list[Columns] = []
    for chunk in _chunks(how, fragment, min(rows, how.chunk_rows), transformed=True):
        held.append(chunk)
        if sum(map(num_rows, held)) >= rows:
            break
    return join(held) if held else {}


def count_rows(how: Reading, fragment: Fragment) -> int:
    """Return how many rows a fragment has after the transforms; one chunk of them is held."""
    if not how.changes_rows:
        how = replace(how, columns=_any_column(how))
    chunks = _chunks(how, fragment, how.chunk_rows, transformed=how.changes_rows)
    with LEDGER.whole(key_of(how.field, COUNT)):
        return sum(num_rows(chunk) for chunk in chunks)


def _any_column(how: Reading) -> tuple[str, ...]:
    """Return one column of csv that is read, of integers if there is one; of other formats all.

    Its lines are taken apart as ever; to convert the values takes most of the time, and what is
    wrong there is told where they are read.
    """
    schema = how.scan.schema
    if how.scan.format != "csv" or schema is None:
        return how.columns
    names = how.columns or tuple(schema.names)
    integers = [name for name in names if pa.types.is_integer(schema.field(name).type)]
    return tuple((integers or names)[:1])


def cut_parts(wanted: Iterable[Part], rows: int, rest: int = 0) -> list[Part]:
    """Return the same rows in parts of at most so many, cut at their multiples in a fragment.

    Args:
        wanted: the parts.
        rows: most of one.
        rest: up to so many more stay with the last one: who reads them alone decodes, of most
            formats, all of the fragment before them.
    """
    return [
        replace(
            part,
            start=start,
            stop=stop,
            place=part.place + start - part.start,
            is_last=part.is_last and stop == part.stop,
        )
        for part in wanted
        for start, stop in pairwise([part.start, *_cuts(part, rows, rest), part.stop])
        if start < stop
    ]


def _cuts(part: Part, rows: int, rest: int) -> Iterator[int]:
    for cut in range(part.start - part.start % rows + rows, part.stop, rows):
        if part.stop - cut > rest:
            yield cut


def stands_alone(how: Reading, part: Part) -> bool:
    """Say whether rows of a fragment can be read as a fragment of their own: each is a file."""
    return part.fragment.is_a_row_a_file and not (how.changes_rows or how.scan.selection)


def alone(how: Reading, part: Part) -> Part:
    """Return a part that stands alone as one of a fragment that has no chunk before or after it.

    Chunks stay as they are: what a function makes of one may hang on which rows are in it.
    """
    fragment, chunk = part.fragment, how.chunk_rows
    begin = part.start - part.start % chunk
    end = min(len(fragment.paths), -(-part.stop // chunk) * chunk)
    path, *more = fragment.paths[begin:end]
    some = replace(
        fragment,
        path=path,
        file=fragment.file + begin,
        rows=end - begin,
        num_bytes=fragment.num_bytes * (end - begin) // len(fragment.paths),
        more=tuple(more),
        skip=fragment.skip + begin,
        stamps=fragment.stamps[begin:end],
    )
    return replace(
        part,
        fragment=some,
        first=part.first + begin,
        start=part.start - begin,
        stop=part.stop - begin,
    )


class FragmentReader:
    """Reads fragments in chunks; what follows in the same fragment is read on from there."""

    def __init__(self) -> None:
        self._open: tuple[object, ...] = ()
        self._chunks: Iterator[Columns] = iter(())
        self._begin = 0

    def chunks(self, how: Reading, part: Part) -> Iterator[tuple[int, Columns]]:
        """Yield the chunks that hold a part, each with its first row's place in the fragment.

        They are transformed where that changes the number of rows.

        Raises:
            DataError: when the fragment has fewer rows than it had, or more.
        """
        # Of a fragment's first few rows no whole chunk is decoded; which these are the file tells.
        told = not (how.changes_rows or how.scan.selection)
        rows = min(how.chunk_rows, part.stop) if told else how.chunk_rows
        wanted = (how.field, part.fragment, how.columns, rows)
        if self._open != wanted or part.start < self._begin:
            self._open, self._begin = wanted, 0
            self._chunks = _chunks(how, part.fragment, rows, transformed=how.changes_rows)
        for chunk in self._chunks:
            begin = self._begin
            self._begin += num_rows(chunk)
            if self._begin >= part.stop:
                self._check_end(how, part)
            if self._begin > part.start:
                yield begin, chunk
            if self._begin >= part.stop:
                break
        else:
            self._open, rows = (), self._begin
            if rows < part.stop:
                raise _other_rows(how, part, f"{rows} rows where it had more")
        if self._begin == part.fragment.rows:  # or its file would stay open
            self._open, self._chunks = (), iter(())

    def _check_end(self, how: Reading, part: Part) -> None:
        """Look whether a fragment has as many rows as were counted: no other part would show it."""
        if not (part.is_last and how.checks_ends):
            return
        if self._begin > part.stop or next(self._chunks, None) is not None:
            self._open = ()
            raise _other_rows(how, part, f"more rows than the {part.stop} that it had")
        self._open = ()


def _other_rows(how: Reading, part: Part, has: str) -> DataError:
    return DataError(
        f"{how.field}: {part.fragment.path} has {has}: files must stay as they are while a run "
        "reads them, and transforms must leave out the same rows each time"
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
    chunks = LEDGER.each(key_of(how.field, READ), chunks, num_rows)
    for chunk in chunks:
        # A function need not know what to make of no rows, and what it makes has other types.
        if num_rows(chunk):
            given = transform(chunk, how.transforms) if transformed else chunk
            if num_rows(given):
                yield given


def _good_chunks(
    how: Reading, fragment: Fragment, chunk_rows: int, wanted: Sequence[str]
) -> Iterator[Columns]:
    assert how.tell
    records = read_records(how.scan, fragment, wanted, chunk_rows)
    found = LEDGER.each(
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
        how: they are read.
        wanted: the parts.
        choice: of their rows.
        reader: one that may have read what comes before them.

    Raises:
        DataError: when a transform changes the number of rows.
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
            f"{how.field}.transforms: {num_rows(columns)} rows came back for {num_rows(chunk)} of "
            f"{fragment.path}, where all rows that were looked at before stayed: leave them out by "
            "read.where, or set cache: objects or disk, which count what is left"
        )
    return columns
