"""Where a rank gets its rows from: Ray's object store and the feeder, or its own reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import ray
import torch.utils.data

from trainshed.data.columns import Columns, cut_rows
from trainshed.data.source import POSITION, from_block, read_piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.actor import ActorHandle

    from trainshed.data.feeder import CachedBlocks, Slice
    from trainshed.data.order import Indices, Piece
    from trainshed.data.plan import DatasetPlan
    from trainshed.data.schedule import Pass


class FedBlocks:
    """Rows that Ray Data prepares: from the object store cache, or streamed by the feeder."""

    def __init__(self, plan: DatasetPlan, coordinator: ActorHandle, rank: int) -> None:
        self._plan = plan
        self._coordinator = coordinator
        self._rank = rank
        self._cached: CachedBlocks | None = None

    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,)."""
        return self._plan.counts if self._plan.cache == "none" else self._cache().counts

    def read(self, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the pieces' rows from the cache."""
        blocks = self._cache().blocks
        for piece in pieces:
            columns = from_block(ray.get(blocks[piece.fragment]))
            yield cut_rows(columns, piece.start, piece.stop)

    def stream(self, at: Pass, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented."""
        if self._plan.cache == "objects" and (not self._plan.augments or at.kind == "exact"):
            yield from self.read(pieces)
            return
        coming = self._coordinator.take.remote(at, self._rank)
        while (taken := cast("Slice | None", ray.get(coming))) is not None:
            coming = self._coordinator.take.remote(at, self._rank)
            columns = from_block(ray.get(taken.block))
            columns.pop(POSITION, None)
            yield cut_rows(columns, taken.start, taken.stop)

    def _cache(self) -> CachedBlocks:
        if self._cached is None:
            self._cached = ray.get(self._coordinator.cached.remote(self._plan.name))
        return self._cached


class _Pieces(torch.utils.data.Dataset[Columns]):
    def __init__(self, plan: DatasetPlan, pieces: list[Piece]) -> None:
        self._plan = plan
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, index: int) -> Columns:
        return read_piece(self._plan, self._pieces[index])


class OwnBlocks:
    """Rows that the worker reads itself with torch's DataLoader; same rows, same order."""

    def __init__(self, plan: DatasetPlan) -> None:
        self._plan = plan

    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,)."""
        return self._plan.counts

    def read(self, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the pieces' rows, read and transformed in this process."""
        # A whole piece is one item: torch's collation row by row costs more than the reading.
        loader = torch.utils.data.DataLoader(
            _Pieces(self._plan, pieces), batch_size=None, collate_fn=_as_it_is
        )
        yield from loader

    def stream(self, at: Pass, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the rank's rows of a pass; augmentation comes later, in this process too."""
        yield from self.read(pieces)


def _as_it_is(columns: Columns) -> Columns:
    return columns
