"""A rank's batches of a pass: stream or memory, shuffle windows, steps, augment, tensors."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from trainshed.data.loader.buffer_pool import lent_for
from trainshed.data.loader.collated import collated
from trainshed.data.loader.prefetch import Prefetched
from trainshed.data.loader.row_tables import ArrivingRows, Rows
from trainshed.data.loader.table_streams import recut, shuffled
from trainshed.data.loader.uncounted_pass import Given, RowCounter, steps_as_they_come, too_few
from trainshed.data.sampler.epoch_pass import (
    EpochPass,
    first_read,
    order_of,
    shuffle_mode,
    steps_for,
    windows_of,
)
from trainshed.data.sampler.permutation import EpochPermutation, Indices, RowRange
from trainshed.data.sampler.stage_time import BATCH, DEVICE, Spent, StageKey
from trainshed.data.sources.column_arrays import Columns, num_rows
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.feed_types import check_dtype
from trainshed.data.sources.fragment_reader import Choice, Table, augmented, everything, reading
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed_api.data import dtype_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trainshed.data.loader.batch_structure import BatchStructure
    from trainshed.data.loader.uncounted_pass import UncountedRowSource
    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.dataset_plan import DatasetPlan

# Rows that a window returns at once if batches are smaller.
LEAST_CHUNK_ROWS = 256


class RowSource(Protocol):
    """The source of a rank's rows of a dataset."""

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment, for the dataset or for each dataset that it mixes.

        Each has shape (fragments,).
        """
        ...

    def read(self, pieces: list[RowRange], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the chosen transformed rows of the ranges, in tables of any size.

        The rows of the first range begin at `place` of the choice.
        """
        ...

    def stream(
        self, at: EpochPass, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, already augmented unless the plan says in the worker.

        Ignores the ranges if the data server sends rows, or datasets are mixed.
        """
        ...


@dataclass(frozen=True)
class Batch:
    """A rank's batch.

    Args:
        tensors: by column, the first axis is the row; or those of the structures. They are on the
            CPU until they are transferred.
        rows: of this rank that count; 0 if it repeats a row of another rank.
        total: of all ranks in this step.
        nests: structures of `feed.collate`, for each part of the batch; empty without such a
            function, and without rows.
    """

    tensors: dict[str, torch.Tensor]
    rows: int
    total: int
    nests: tuple[BatchStructure, ...] = ()

    @property
    def given(self) -> object:
        """Return the batch to train on: tensors by column, or one collated part."""
        if not self.nests:
            return self.tensors
        (structure,) = self.nests
        return structure.filled(self.tensors)


class Feed:
    """Makes the batches of one dataset for one rank.

    Args:
        plan: of the dataset.
        blocks: source of its rows.
        rank: this worker.
        uncounted: source until they are counted; None if they are.
    """

    def __init__(
        self,
        plan: DatasetPlan,
        blocks: RowSource,
        rank: int,
        uncounted: UncountedRowSource | None = None,
    ) -> None:
        self.plan = plan
        self._blocks = blocks
        self._rank = rank
        self._uncounted = uncounted if plan.is_learned else None
        self._own: dict[tuple[str, int], ArrivingRows] = {}
        self._all: Rows | None = None
        self._counts: Sequence[Indices] = ()
        # Counts of the pass in progress, shape (fragments,).
        self._learning = np.empty(0, dtype=np.int64)
        self._made: Counter[EpochPass] = Counter()
        self._batch = StageKey(plan.name, BATCH)

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment after transforms; waits for a cached dataset.

        For each mixed dataset, or for this one.
        """
        self._counts = self._counts or self._blocks.counts()
        return self._counts

    @property
    def counted(self) -> dict[str, Indices]:
        """Return the rows of each fragment by dataset, if they have been requested before."""
        if self._uncounted and not self._counts:
            return {self.plan.name: self._learning} if len(self._learning) else {}
        parts = self.plan.parts or (self.plan,)
        return {part.name: each for part, each in zip(parts, self._counts, strict=False)}

    @property
    def rows(self) -> int:
        """Return all rows after transforms; waits for a cached dataset."""
        return sum(int(each.sum()) for each in self.counts())

    def planned_steps(self, at: EpochPass) -> BatchLayout | None:
        """Return the steps of a pass; None if only the pass itself will tell.

        Raises:
            DataError: if there are too few rows for one step of training.
        """
        return self.steps(at) if self._is_counted(at) else None

    def steps(self, at: EpochPass) -> BatchLayout:
        """Return the steps of a pass over counted rows, waiting for the counts.

        Raises:
            DataError: if there are too few rows for one step of training, or none of a part.
        """
        steps = steps_for(self.plan, at, self.rows)
        for part, counts in zip(self.plan.parts, self.counts(), strict=False):
            if not counts.sum():
                raise DataError(
                    f"{self.plan.field}.read.mix.{part.name}: no rows are left after the "
                    "transforms; expected a dataset with rows"
                )
        if at.kind == "train" and not steps.count:
            rows = self.plan.spec.rows_per_epoch or self.rows
            raise DataError(too_few(self.plan, at, rows))
        return steps

    def _is_counted(self, at: EpochPass) -> bool:
        """Return whether the rows are known before a pass; the same on all ranks."""
        if self._uncounted is None or self._counts:
            return True
        known = self._uncounted.known(at)
        if known.are_all:
            self._counts = (known.counts,)
        return known.are_all

    def batches(
        self,
        at: EpochPass,
        stage: Callable[[Batch], Batch] = lambda batch: batch,
        most_parts: int = 1,
    ) -> Prefetched[Batch]:
        """Return the batches from `at.first_step` to the end of the pass, prepared in a thread.

        Args:
            at: the pass.
            stage: called there with each batch; returns the batch to yield.
            most_parts: maximum number of parts of a batch, which are collated separately.
        """
        depth = self.plan.spec.feed.prefetch_batches
        made = self._batches(self._numbered(at), most_parts)
        if at.kind == "train" and at.following is None:  # else the next epoch reuses the memory
            made = lent_for(made)
        items = STAGE_TIMER.each(self._batch, made, lambda each: each.rows)
        return Prefetched(items, depth, finish=partial(self._staged, stage))

    def columns(self, at: EpochPass, table_rows: int = 1) -> Iterator[Columns]:
        """Yield the columns of the steps from `at.first_step` to the end of the pass.

        table_rows: minimum rows of a table, which has one or more steps.
        """
        made = lent_for(self._columns(at, table_rows))
        yield from STAGE_TIMER.each(self._batch, made, num_rows)

    def _columns(self, at: EpochPass, table_rows: int) -> Iterator[Columns]:
        numbered = self._numbered(at)
        if not self._is_counted(numbered):
            yield from (given.table[0] for given in self._as_they_come(numbered))
            return
        sizes = self.steps(at).sizes(self._rank)[at.first_step :]
        span = max(1, -(-table_rows // int(sizes.max(initial=1))))
        grouped = np.add.reduceat(sizes, np.arange(0, len(sizes), span)) if len(sizes) else sizes
        for columns, _ in self._tables(numbered, grouped):
            yield columns

    def _staged(self, stage: Callable[[Batch], Batch], batch: Batch) -> Batch:
        begun = time.perf_counter()
        staged = stage(batch)
        if staged is not batch:
            spent = Spent(time.perf_counter() - begun, batch.rows)
            STAGE_TIMER.add({StageKey(self.plan.name, DEVICE): spent})
        return staged

    def _numbered(self, at: EpochPass) -> EpochPass:
        # All ranks make the same passes in the same order, so they count alike.
        self._made[at] += 1
        return replace(at, again=self._made[at] - 1)

    def _as_they_come(self, at: EpochPass) -> Iterator[Given]:
        """Yield this rank's steps of a pass that counts the rows."""
        assert self._uncounted
        # Arrays in Ray's object store are read-only.
        self._learning = self._uncounted.known(at).counts.copy()
        counter = RowCounter(self.plan, at, self._learning, self._uncounted)
        return steps_as_they_come(self.plan, at, self._rank, counter.begin, counter.tables())

    def _batches(self, at: EpochPass, most_parts: int) -> Iterator[Batch]:
        plan = self.plan
        dtypes = {column: getattr(torch, name) for column, name in plan.spec.feed.dtypes.items()}
        for given in self._steps(at):
            if plan.collate is None:
                tensors = to_tensors(plan, dtypes, given.table)
                yield Batch(tensors, given.rows, given.total)
            else:
                tensors, nests = collated(plan, at, given, most_parts)
                yield Batch(tensors, given.rows, given.total, nests)

    def _steps(self, at: EpochPass) -> Iterator[Given]:
        """Yield this rank's part of each remaining step of a pass."""
        if not self._is_counted(at):
            yield from self._as_they_come(at)
            return
        steps = self.steps(at)
        counting = steps.sizes(self._rank, counted=True).tolist()
        tables = self._tables(at, steps.sizes(self._rank)[at.first_step :])
        for step, table in enumerate(tables, start=at.first_step):
            yield Given(table, counting[step], steps.total(step))

    def _tables(self, at: EpochPass, sizes: Indices) -> Iterator[Table]:
        """Yield the rest of a pass in tables of these sizes."""
        plan = self.plan
        is_global = shuffle_mode(plan, at) == "global"
        in_memory = plan.cache == "workers" or (is_global and plan.is_found_in_memory)
        tables = self._from_memory(at, sizes) if in_memory else recut(self._stream(at), sizes)
        if not plan.augments_in_worker or at.in_file_order:
            yield from tables
            return
        how = reading(plan, at.seed, at.epoch)
        for columns, ids in tables:
            yield augmented(how, columns, ids), ids

    def _from_memory(self, at: EpochPass, sizes: Indices) -> Iterator[Table]:
        steps = self.steps(at)
        if shuffle_mode(self.plan, at) == "global":
            base = order_of(self.plan, at, *self.counts())
            assert isinstance(base, EpochPermutation)
            order = base.positions(steps.places(self._rank, at.first_step, steps.count))
            table = self._all_rows().table
        else:
            order, table = self._own_order(at, steps), self._own_rows(at, steps).table
        ends = np.cumsum(sizes)
        for start, stop in zip((ends - sizes).tolist(), ends.tolist(), strict=True):
            yield table(order[start:stop])

    def _own_order(self, at: EpochPass, steps: BatchLayout) -> Indices:
        """Return the rest of this rank's order of its rows, shape (rows left,)."""
        windows = windows_of(self.plan, at, steps)
        done, rows = (steps.rows_in(self._rank, 0, stop) for stop in (at.first_step, steps.count))
        if windows is None:
            return np.arange(done, rows, dtype=np.int64)
        begin = steps.rows_in(self._rank, 0, windows.first(at.first_step))
        parts = []
        for number in windows.numbers(at.first_step):
            parts.append(begin + windows.order(number, self._rank))
            begin += len(parts[-1])
        order = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
        return order[len(order) - (rows - done) :]

    def _own_rows(self, at: EpochPass, steps: BatchLayout) -> ArrivingRows:
        key = (at.kind, at.batch_size)
        if key not in self._own:
            base, chosen = self._in_file_order(), partial(steps.within, self._rank)
            kept = replace(at, epoch=0, first_step=0, epochs=None, again=0, is_kept=True)
            tables = self._blocks.stream(kept, base.pieces(0, steps.rows), 0, chosen)
            places = steps.places(self._rank, 0, steps.count)
            self._own[key] = ArrivingRows(tables, base.ids(places))
        return self._own[key]

    def _all_rows(self) -> Rows:
        if self._all is None:
            base = self._in_file_order()
            tables = self._blocks.read(base.pieces(0, self.rows), 0, everything)
            self._all = Rows(list(tables), base.ids(np.arange(self.rows, dtype=np.int64)))
        return self._all

    def _in_file_order(self) -> EpochPermutation:
        (counts,) = self.counts()
        numbers = np.arange(len(counts), dtype=np.int64)
        return EpochPermutation(numbers, counts, first_ids=self.plan.given_ids)

    def _stream(self, at: EpochPass) -> Iterator[Table]:
        """Yield the tables of a stream, shuffled in windows if the plan says so."""
        steps = self.steps(at)
        tables, windows = self._as_it_comes(at, steps), windows_of(self.plan, at, steps)
        if windows is None:
            return tables
        numbers = windows.numbers(at.first_step)
        skip = steps.rows_in(self._rank, windows.first(at.first_step), at.first_step)
        chunk = max(LEAST_CHUNK_ROWS, *steps.sizes(self._rank)[:1].tolist())
        sizes = np.asarray([windows.rows(number, self._rank) for number in numbers], dtype=np.int64)

        def order(place: int) -> Indices:
            return windows.order(numbers[place], self._rank)

        return shuffled(tables, sizes, order, skip, chunk)

    def _as_it_comes(self, at: EpochPass, steps: BatchLayout) -> Iterator[Table]:
        base = order_of(self.plan, at, *self.counts())
        first = first_read(self.plan, at, steps)
        places = steps.places(self._rank, first, steps.count)
        start = steps.start(first)
        pieces: list[RowRange] = []
        if isinstance(base, EpochPermutation) and base.mixed is None:
            pieces = base.pieces(start, steps.rows)
        done = 0
        for columns in self._blocks.stream(at, pieces, start, partial(steps.within, self._rank)):
            rows = num_rows(columns)
            here = places[done : done + rows]
            # Rows of a mix are augmented by their readers: their ids are unknown here.
            yield columns, base.ids(here) if isinstance(base, EpochPermutation) else here
            done += rows


def to_tensors(
    plan: DatasetPlan, dtypes: Mapping[str, torch.dtype], table: Table
) -> dict[str, torch.Tensor]:
    """Return the columns as CPU tensors with separate memory, in the requested types.

    Args:
        plan: of the dataset.
        dtypes: torch's types by column, or for all of them.
        table: the rows.

    Raises:
        DataError: if a column has no numbers, or a value that its type cannot represent.
    """
    columns, ids = table
    tensors = {}
    for name, array in columns.items():
        # A view of the object store is read-only, and torch would warn at each batch.
        owned = np.require(array, requirements=["C", "W"])
        try:
            tensor = torch.from_numpy(owned)
        except TypeError as error:
            kind = type(array.flat[0]).__name__ if array.size else str(array.dtype)
            raise DataError(
                f"{plan.field}: column {name} holds values of {kind}; turn it into numbers by a "
                "transform, make tensors of it by feed.collate, or leave it out with read.columns"
            ) from error
        if (dtype := dtype_for(name, dtypes)) is not None:
            check_dtype(plan, name, owned, ids)
            tensor = tensor.to(dtype)
        tensors[name] = tensor
    return tensors
