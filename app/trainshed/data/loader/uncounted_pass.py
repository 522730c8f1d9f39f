"""A rank's steps of a pass over uncounted rows: all ranks read all rows, and take theirs.

The steps are those of a counted pass. The end of the rows is known only when it is reached: the
last window and the last step are made then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trainshed.data.loader.prefetch import Prefetched
from trainshed.data.loader.row_counts import check_rows
from trainshed.data.loader.table_streams import cut_tables, rows_of
from trainshed.data.sampler.epoch_pass import first_read, steps_for, windows_of
from trainshed.data.sampler.first_pass import (
    UNKNOWN,
    begin_of,
    endless_steps,
    is_complete,
    order_of_fragments,
)
from trainshed.data.sources.column_arrays import cut_rows, num_rows
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed.data.loader.row_counts import Known
    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.shuffle_windows import ShuffleWindows
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.fragment_reader import Table


class UncountedRowSource(Protocol):
    """The source of rows that have not been counted: their first pass counts them."""

    def known(self, at: EpochPass) -> Known:
        """Return the counts that were known when a pass began, the same on all ranks."""
        ...

    def learn(self, counts: Mapping[int, int], *, waits: bool) -> None:
        """Report the rows of fragments; waits: on every rank, until the report has arrived."""
        ...

    def arrivals(self, at: EpochPass) -> Iterator[tuple[int, Columns]]:
        """Yield (fragment, columns) of all rows of a pass, of all ranks, augmented."""
        ...


@dataclass(frozen=True)
class Given:
    """A rank's part of a step.

    Args:
        table: its rows, including repeated ones.
        rows: number of them that count.
        total: counted rows of all ranks.
    """

    table: Table
    rows: int
    total: int


class RowCounter:
    """Counts the rows of fragments during a pass.

    Args:
        plan: of the dataset.
        at: the pass.
        counts: (fragments,) the known rows; updated here.
        source: of the rows.
    """

    def __init__(
        self,
        plan: DatasetPlan,
        at: EpochPass,
        counts: Indices,
        source: UncountedRowSource,
    ) -> None:
        self._plan = plan
        self._at = at
        self._order = order_of_fragments(plan, at)
        self._next, self.begin = begin_of(plan, at, self._order, counts)
        self._counts = counts
        self._source = source

    def tables(self) -> Iterator[Table]:
        """Yield the tables with the ids of their rows.

        Raises:
            DataError: if a fragment has other rows than before.
        """
        rows = 0
        for fragment, columns in self._source.arrivals(self._at):
            while self._order[self._next] != fragment:
                self._end(rows)
                rows = 0
            first = int(self._plan.first_ids[fragment]) + rows
            rows += num_rows(columns)
            yield columns, np.arange(first, first + num_rows(columns), dtype=np.int64)
        while self._next < len(self._order):
            self._end(rows)
            rows = 0
        # By every rank: the first one that finishes requests the next pass, which would count as
        # uncounted while another rank's report of the last rows is in transit.
        if is_complete(self._counts):
            self._source.learn(dict(enumerate(self._counts.tolist())), waits=True)

    def _end(self, rows: int) -> None:
        fragment = int(self._order[self._next])
        known = int(self._counts[fragment])
        self._next += 1
        check_rows(self._plan, fragment, rows, known)
        self._counts[fragment] = rows
        if known == UNKNOWN:
            self._source.learn({fragment: rows}, waits=False)


def steps_as_they_come(
    plan: DatasetPlan, at: EpochPass, rank: int, begin: int, tables: Iterator[Table]
) -> Iterator[Given]:
    """Yield a rank's part of each step from `at.first_step` on.

    Args:
        plan: of the dataset.
        at: the pass.
        rank: whose they are.
        begin: position of the first row in the epoch's order.
        tables: all rows from there on, of all ranks.
    """
    pass_ = _Uncounted(plan, at, rank, begin)
    windows = windows_of(plan, at, pass_.steps)
    mine = pass_.full_steps(tables)
    if windows is not None:
        mine = pass_.mixed(mine, windows)
    skipped = at.first_step - pass_.first
    for table, count in mine:
        for step in range(count):
            if skipped:
                skipped -= 1
            else:
                yield pass_.given(table, step)
    if (last := pass_.last_step()) is not None and not skipped:
        yield last


class _Uncounted:
    """The buffered rows of a pass.

    Args:
        plan: of the dataset.
        at: the pass.
        rank: whose rows are taken.
        begin: position of the first row.
    """

    def __init__(self, plan: DatasetPlan, at: EpochPass, rank: int, begin: int) -> None:
        self._plan = plan
        self._at = at
        self._rank = rank
        self.steps = endless_steps(plan, at)
        self.first = first_read(plan, at, self.steps)
        self._place = begin
        self._width = self.steps.rows_in(rank, 0, 1)
        self._counting = int(replace(self.steps, full=1, last=0).sizes(rank, counted=True)[0])
        # Rows of all ranks that do not fill a step yet.
        self._rest: list[Table] = []

    @property
    def _true_steps(self) -> BatchLayout:
        """Return the steps of the pass, once all rows were read."""
        return steps_for(self._plan, self._at, self._place)

    def given(self, table: Table, step: int) -> Given:
        """Return a full step of a table of several."""
        columns, ids = table
        start, stop = step * self._width, (step + 1) * self._width
        cut = (cut_rows(columns, start, stop), ids[start:stop])
        return Given(cut, self._counting, self.steps.total(0))

    def full_steps(self, tables: Iterator[Table]) -> Iterator[tuple[Table, int]]:
        """Yield the rank's rows of the complete steps so far, and the number of these steps."""
        wanted = self.steps.start(self.first)
        held, have, step = self._rest, 0, self.first
        for columns, ids in tables:
            skip = min(len(ids), max(0, wanted - self._place))
            self._place += len(ids)
            if skip < len(ids):
                held.append((cut_rows(columns, skip, len(ids)), ids[skip:]))
                have += len(ids) - skip
            if count := have // self.steps.size:
                rows, size = rows_of(held), count * self.steps.size
                begin = self.steps.start(step)
                mine = np.arange(size)[self.steps.within(self._rank, begin, begin + size)]
                yield rows.table(mine), count
                held[:] = cut_tables(held, size)[1]
                have, step = have - size, step + count

    def mixed(
        self, mine: Iterator[tuple[Table, int]], windows: ShuffleWindows
    ) -> Iterator[tuple[Table, int]]:
        """Yield the same steps window by window, each shuffled, reading the next one ahead."""
        ahead = Prefetched(mine, windows.span, lambda some: some[1])
        number, have = windows.numbers(self.first).start, 0
        held: list[Table] = []
        try:
            for table, count in ahead:
                held.append(table)
                have += count
                while have >= (steps := len(windows.full_steps(number))):
                    yield rows_of(held).table(windows.order(number, self._rank)), steps
                    held = cut_tables(held, steps * self._width)[1]
                    number, have = number + 1, have - steps
        finally:
            ahead.close()
        if have:
            last = windows_of(self._plan, self._at, self._true_steps)
            assert last
            yield rows_of(held).table(last.order(number, self._rank)), have

    def last_step(self) -> Given | None:
        """Return the smaller step at the end, if there is one; called after the last row.

        Raises:
            DataError: if there is no step at all.
        """
        steps = self._true_steps
        if self._at.kind == "train" and not steps.count:
            raise DataError(too_few(self._plan, self._at, self._place))
        if not steps.last:
            return None
        places = steps.places(self._rank, steps.full, steps.count) - steps.start(steps.full)
        table = rows_of(self._rest).table(places)
        return Given(table, int(steps.sizes(self._rank, counted=True)[-1]), steps.total(steps.full))


def too_few(plan: DatasetPlan, at: EpochPass, rows: int) -> str:
    """Return the error for an epoch with this many rows."""
    return (
        f"{plan.field}: {rows} rows of an epoch after the transforms are too few for "
        f"one step of {at.batch_size} rows over {at.world_size} workers: use a smaller "
        "spec.batchSize, or feed.lastBatch: keep"
    )
