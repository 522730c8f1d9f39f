"""The sources of a rank's rows: Ray's object store and the data server, or its own reading."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import ray
from ray.data.block import BlockAccessor
from ray.exceptions import GetTimeoutError, ObjectLostError, RayTaskError

from trainshed.data.loader.arrow_blocks import from_block, tables_of
from trainshed.data.loader.ray_datasets import FRAGMENT
from trainshed.data.loader.streams import Left, StreamClosedError
from trainshed.data.loader.table_streams import woven
from trainshed.data.sampler.epoch_pass import is_mixed, order_of, shuffle_mode, steps_for
from trainshed.data.sampler.permutation import EpochPermutation, Indices, RowRange
from trainshed.data.sampler.stage_time import TRANSFER, StageKey
from trainshed.data.sources.column_arrays import Columns, cut_rows, join, take_rows
from trainshed.data.sources.errors import DataError, raise_again
from trainshed.data.sources.fragment_reader import (
    Choice,
    Reading,
    count_rows,
    everything,
    parts,
    read_parts,
    reading,
)
from trainshed.data.sources.mixed import stretches
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.failures import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ray.actor import ActorHandle
    from ray.data.block import Block

    from trainshed.data.loader.data_server import Slice
    from trainshed.data.loader.object_store_cache import CachedBlocks
    from trainshed.data.loader.row_counts import Known
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass

Actor = TypeVar("Actor")
Answer = TypeVar("Answer")

# Generations of a cache that may be lost while a worker reads one block.
MOST_FILLINGS = 3
# A block exists when it is requested. The wait is for its transfer, or for a task that Ray repeats
# because its node is lost. If that task never ends, only this limit ends the wait.
LOST_SECONDS = 300.0


class RemoteSource:
    """Rows that Ray Data prepares: from the object store cache, or streamed by the data server.

    Args:
        plan: of the dataset.
        coordinator: the actor with the data server.
        rank: this worker.
        cuts_blocks: whether it slices cached blocks itself; otherwise tasks beside the blocks do
            it.
    """

    def __init__(
        self,
        plan: DatasetPlan,
        coordinator: ActorHandle[Actor],
        rank: int,
        *,
        cuts_blocks: bool = True,
    ) -> None:
        self._plan = plan
        self._rank = rank
        has_blocks = plan.cache in ("objects", "workers") and plan.is_filled
        self._cuts_blocks = cuts_blocks and has_blocks
        self._remote_cached: Callable[[str, int], ray.ObjectRef[CachedBlocks]]
        self._remote_take: Callable[[EpochPass, int], ray.ObjectRef[Slice | Left | None]]
        self._remote_counts: Callable[[str], ray.ObjectRef[Indices]]
        self._remote_cached = coordinator.cached.remote
        self._remote_take = coordinator.take.remote
        self._remote_counts = coordinator.counts.remote
        self._remote_known: Callable[[EpochPass], ray.ObjectRef[Known]] = coordinator.known.remote
        self._remote_learn: Callable[[str, Mapping[int, int]], ray.ObjectRef[None]]
        self._remote_learn = coordinator.learn.remote
        self._cached: dict[str, CachedBlocks] = {}
        self._transfer = StageKey(plan.name, TRANSFER)

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment, of each mixed dataset."""
        found = []
        for part in self._plan.parts or (self._plan,):
            if part.is_filled:
                found.append(self._cache(part.name).counts)
            elif part.has_row_counts:
                found.append(part.counts)
            else:
                found.append(_answer(self._remote_counts(part.name)))
        return found

    def known(self, at: EpochPass) -> Known:
        """Return the counts that were known when a pass began, the same on all ranks."""
        return _answer(self._remote_known(at))

    def learn(self, counts: Mapping[int, int], *, waits: bool) -> None:
        """Report the rows of fragments; all ranks see the same, so without a wait one reports."""
        if waits:
            _answer(self._remote_learn(self._plan.name, counts))
        elif self._rank == 0:
            self._remote_learn(self._plan.name, counts)

    def arrivals(self, at: EpochPass) -> Iterator[tuple[int, Columns]]:
        """Yield (fragment, columns) of all rows of an uncounted pass."""
        for columns in self._taken(at):
            numbers = columns.pop(FRAGMENT)
            yield int(numbers[0]), columns

    def read(self, pieces: list[RowRange], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the chosen rows of the ranges from the cache."""
        for piece in pieces:
            rows = cut_rows(self._block(piece.fragment), piece.start, piece.stop)
            yield take_rows(rows, choice(place, place + piece.rows))
            place += piece.rows

    def stream(
        self, at: EpochPass, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented."""
        as_kept = not self._plan.augments or at.in_file_order
        if self._cuts_blocks and as_kept and not is_mixed(self._plan, at):
            yield from self.read(pieces, place, choice)
            return
        yield from self._taken(at)

    def _taken(self, at: EpochPass) -> Iterator[Columns]:
        """Yield the rank's stream of a pass.

        Raises:
            StreamClosedError: if the rank has started a later pass.
        """
        coming = self._remote_take(at, self._rank)
        while (taken := _answer(coming)) is not None:
            if isinstance(taken, Left):
                said = "this pass was left before its end: a later one of the dataset has begun"
                raise StreamClosedError(f"{self._plan.field}: {said}")
            coming = self._remote_take(at, self._rank)
            with STAGE_TIMER.inside(self._transfer, taken.stop - taken.start):
                block = _fetched(taken.block, self._plan.field)
                rows = BlockAccessor.for_block(block).num_rows()
                if rows != taken.rows:  # Ray makes a block again if its node is lost
                    raise DataError(
                        f"{self._plan.field}: a block had {taken.rows} rows, and {rows} since it "
                        "was lost and made again: transforms must return the same rows for the "
                        "same input"
                    )
                tables = list(tables_of(block, taken.start, taken.stop))
            # Only the rows hold the block in the object store, as long as they are in use.
            del taken, block
            while tables:
                yield tables.pop(0)

    def _cache(self, name: str) -> CachedBlocks:
        if name not in self._cached:
            self._cached[name] = _answer(self._remote_cached(name, 0))
        return self._cached[name]

    def _block(self, number: int) -> Columns:
        """Return a cached block; if it is lost, all of them are made again."""
        name = self._plan.name
        for _ in range(MOST_FILLINGS):
            held = self._cache(name)
            try:
                with STAGE_TIMER.inside(self._transfer, int(held.counts[number])):
                    return from_block(_fetched(held.blocks[number], self._plan.field))
            except ObjectLostError:  # with its node; Ray has tried to make it again
                self._cached[name] = _answer(self._remote_cached(name, held.filling))
        raise InfrastructureError(
            f"{self._plan.field}: block {number} of the cache was lost again", "node"
        )


def _fetched(block: ray.ObjectRef[Block], field: str) -> Block:
    try:
        return ray.get(block, timeout=LOST_SECONDS)
    except GetTimeoutError as error:
        lost = f"{field}: a block of rows did not come within {LOST_SECONDS:.0f} s"
        raise InfrastructureError(lost, "node") from error


def _answer(coming: ray.ObjectRef[Answer]) -> Answer:
    try:
        with STAGE_TIMER.starving():
            return ray.get(coming)
    except RayTaskError as error:
        if isinstance(error.cause, (DataError, InfrastructureError)):
            raise_again(error.cause)
        raise


class LocalSource:
    """Reads rows in this process, without Ray: the rows of RemoteSource, in the same order.

    For tests and small tools: a global shuffle reads all rows in each epoch.

    Args:
        plan: of the dataset.
    """

    def __init__(self, plan: DatasetPlan) -> None:
        self._plan = plan

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment, of each mixed dataset."""
        return [_counted(part) for part in self._plan.parts or (self._plan,)]

    def read(self, pieces: list[RowRange], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the chosen rows of the ranges after the transforms."""
        yield from self._read(reading(self._plan), pieces, place, choice)

    def stream(
        self, at: EpochPass, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented unless the plan augments in the worker."""
        if is_mixed(self._plan, at):
            yield from self._mixed(at, choice)
            return
        is_augmented = not (self._plan.augments_in_worker or at.in_file_order)
        how = reading(self._plan, at.seed, at.epoch if is_augmented else None)
        if shuffle_mode(self._plan, at) == "global":
            yield self._shuffled(how, at, place, choice)
        else:
            yield from self._read(how, pieces, place, choice)

    def _shuffled(self, how: Reading, at: EpochPass, place: int, choice: Choice) -> Columns:
        """Return the chosen rows of a global shuffle, from a place of its order on."""
        (counts,) = self.counts()
        whole = [RowRange(number, 0, rows) for number, rows in enumerate(counts.tolist())]
        rows = join(list(self._read(how, whole, 0, everything)))
        order = order_of(self._plan, at, counts)
        assert isinstance(order, EpochPermutation)
        stop = steps_for(self._plan, at, order.rows).rows
        places = np.arange(place, stop, dtype=np.int64)[choice(place, stop)]
        return take_rows(rows, order.positions(places))

    def _read(
        self, how: Reading, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        for columns, _ in read_parts(how, parts(self._plan, pieces, place), choice):
            yield columns

    def _mixed(self, at: EpochPass, choice: Choice) -> Iterator[Columns]:
        for stretch in stretches(self._plan, at, self.counts(), choice):
            tables = chain.from_iterable(
                read_parts(how, some, stretch.choice) for how, some in stretch.reads
            )
            sizes = np.asarray([len(stretch.order)], dtype=np.int64)
            for columns, _ in woven(tables, stretch.order, sizes, self._plan.field):
                yield columns


def _counted(plan: DatasetPlan) -> Indices:
    """Return the rows of each fragment, which are read where the files do not tell them."""
    if plan.has_row_counts:
        return plan.counts
    assert plan.source
    how = reading(plan)
    return np.asarray([count_rows(how, each) for each in plan.source.fragments], dtype=np.int64)
