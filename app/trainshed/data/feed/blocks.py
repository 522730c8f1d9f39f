"""Where a rank gets its rows from: Ray's object store and the feeder, or its own reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import ray
import torch.utils.data
from ray.exceptions import ObjectLostError, RayTaskError

from trainshed.data.feed.datasets import from_block
from trainshed.data.feed.tables import woven
from trainshed.data.order.schedule import is_mixed
from trainshed.data.read.columns import Columns, cut_rows, take_rows
from trainshed.data.read.errors import DataError, FunctionError, RemoteTracebackError
from trainshed.data.read.mixed import stretches
from trainshed.data.read.source import Choice, Part, Reading, parts, read_parts, reading
from trainshed.faults import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ray.actor import ActorHandle

    from trainshed.data.feed.cache import CachedBlocks
    from trainshed.data.feed.feeder import Slice
    from trainshed.data.order.permutation import Indices, Piece
    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.order.schedule import Pass

Actor = TypeVar("Actor")
Answer = TypeVar("Answer")
Item = TypeVar("Item")

# Fillings of a cache that may be lost while a worker reads one block.
MOST_FILLINGS = 3


class FedBlocks:
    """Rows that Ray Data prepares: from the object store cache, or streamed by the feeder.

    Args:
        plan: of the dataset.
        coordinator: the actor with the feeder.
        rank: this worker.
        cuts_blocks: whether it takes its rows out of cached blocks itself; else tasks beside the
            blocks deal them out.
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
        self._cuts_blocks = cuts_blocks and plan.cache == "objects"
        self._remote_cached: Callable[[str, int], ray.ObjectRef[CachedBlocks]]
        self._remote_take: Callable[[Pass, int], ray.ObjectRef[Slice | None]]
        self._remote_cached = coordinator.cached.remote
        self._remote_take = coordinator.take.remote
        self._cached: dict[str, CachedBlocks] = {}

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment, of each dataset that is mixed."""
        parts = self._plan.parts or (self._plan,)
        return [
            part.counts if part.cache == "none" else self._cache(part.name).counts for part in parts
        ]

    def read(self, pieces: list[Piece], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the pieces' chosen rows from the cache."""
        for piece in pieces:
            rows = cut_rows(self._block(piece.fragment), piece.start, piece.stop)
            yield take_rows(rows, choice(place, place + piece.rows))
            place += piece.rows

    def stream(
        self, at: Pass, pieces: list[Piece], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented."""
        as_kept = not self._plan.augments or at.in_file_order
        if self._cuts_blocks and as_kept and not is_mixed(self._plan, at):
            yield from self.read(pieces, place, choice)
            return
        coming = self._remote_take(at, self._rank)
        while (taken := _answer(coming)) is not None:
            coming = self._remote_take(at, self._rank)
            block = ray.get(taken.block)
            columns = cut_rows(from_block(block), taken.start, taken.stop)
            # The rows alone keep the block in the object store, as long as somebody has them.
            del taken, block
            yield columns
            del columns

    def _cache(self, name: str) -> CachedBlocks:
        if name not in self._cached:
            self._cached[name] = _answer(self._remote_cached(name, 0))
        return self._cached[name]

    def _block(self, number: int) -> Columns:
        """Return a cached block; where it is lost all of them are made anew."""
        name = self._plan.name
        for _ in range(MOST_FILLINGS):
            held = self._cache(name)
            try:
                return from_block(ray.get(held.blocks[number]))
            except ObjectLostError:  # by its node; Ray has tried to make it again
                self._cached[name] = _answer(self._remote_cached(name, held.filling))
        raise WorldError(f"{self._plan.field}: block {number} of the cache was lost again", "node")


def _answer(coming: ray.ObjectRef[Answer]) -> Answer:
    try:
        return ray.get(coming)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, FunctionError) and cause.trace:
            raise cause from RemoteTracebackError(cause.trace)
        if isinstance(cause, (DataError, WorldError)):
            raise cause from None
        raise


class _Parts(torch.utils.data.IterableDataset[Columns]):
    def __init__(self, how: Reading, wanted: Sequence[Part], choice: Choice) -> None:
        self._how = how
        self._wanted = wanted
        self._choice = choice

    def __iter__(self) -> Iterator[Columns]:
        for columns, _ in read_parts(self._how, self._wanted, self._choice):
            yield columns


class OwnBlocks:
    """Rows that the worker reads itself with torch's DataLoader; same rows, same order."""

    def __init__(self, plan: DatasetPlan) -> None:
        self._plan = plan

    def counts(self) -> Sequence[Indices]:
        """Return the rows of each fragment, of each dataset that is mixed."""
        return [part.counts for part in self._plan.parts or (self._plan,)]

    def read(self, pieces: list[Piece], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the pieces' chosen rows, read and transformed in this process."""
        wanted = _Parts(reading(self._plan), parts(self._plan, pieces, place), choice)
        # A whole table is one item: torch's collation row by row costs more than the reading.
        # It draws a seed for workers that it does not have, in this thread and at any time: from
        # torch's own generator that would change what dropout does, each time differently.
        yield from torch.utils.data.DataLoader(
            wanted, batch_size=None, collate_fn=_as_it_is, generator=torch.Generator()
        )

    def stream(
        self, at: Pass, pieces: list[Piece], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows of a pass; augmented where datasets are mixed."""
        if not is_mixed(self._plan, at):
            yield from self.read(pieces, place, choice)
            return
        for stretch in stretches(self._plan, at, self.counts(), choice):
            tables = (
                table
                for how, some in stretch.reads
                for table in read_parts(how, some, stretch.choice)
            )
            sizes = np.asarray([len(stretch.order)], dtype=np.int64)
            for columns, _ in woven(tables, stretch.order, sizes, self._plan.field):
                yield columns


def _as_it_is(item: Item) -> Item:
    return item
