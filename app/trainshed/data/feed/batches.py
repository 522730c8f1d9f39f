"""A rank's batches of a pass: stream or memory, local shuffle, steps, augment, tensors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from trainshed.data.feed.prefetch import Prefetched
from trainshed.data.feed.rows import Rows
from trainshed.data.feed.tables import recut, shuffled
from trainshed.data.order.permutation import Indices, Piece, cut, local_order, window_order
from trainshed.data.order.schedule import (
    Pass,
    rank_pieces,
    rank_rows,
    shuffle_mode,
    split_for,
    window_skip,
)
from trainshed.data.read.columns import Columns, num_rows
from trainshed.data.read.errors import DataError
from trainshed.data.read.source import Table, augmented, piece_ids, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.order.split import Split

# Rows that a window gives out at once where batches are smaller.
LEAST_CHUNK_ROWS = 256


class Blocks(Protocol):
    """Where a rank gets the rows of a dataset from."""

    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,)."""
        ...

    def read(self, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the pieces' rows as the transforms left them, in tables of any size."""
        ...

    def stream(self, at: Pass, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented already unless the plan says in the worker."""
        ...


@dataclass(frozen=True)
class Batch:
    """One rank batch.

    Args:
        tensors: by column; the first axis is the row. They lie on the CPU until they are carried.
        rows: of this rank.
        total: of all ranks in this step.
    """

    tensors: dict[str, torch.Tensor]
    rows: int
    total: int


class Feed:
    """Makes the batches of one dataset for one rank.

    Args:
        plan: of the dataset.
        blocks: where its rows come from.
        rank: this worker.
    """

    def __init__(self, plan: DatasetPlan, blocks: Blocks, rank: int) -> None:
        self.plan = plan
        self._blocks = blocks
        self._rank = rank
        self._kept: dict[tuple[str, int], Rows] = {}
        self._counts: Indices | None = None
        self._made: Counter[Pass] = Counter()

    def counts(self) -> Indices:
        """Return the rows of each fragment after transforms; a cached dataset is waited for."""
        if self._counts is None:
            self._counts = self._blocks.counts()
        return self._counts

    @property
    def counted(self) -> Indices | None:
        """Return the rows of each fragment where somebody asked for them already."""
        return self._counts

    def split(self, at: Pass) -> Split:
        """Return the steps of a pass.

        Raises:
            DataError: when there are too few rows for one step of training.
        """
        rows = int(self.counts().sum())
        split = split_for(self.plan, at, rows)
        if at.kind == "train" and not split.steps:
            raise DataError(
                f"{self.plan.field}: {rows} rows after the transforms are too few for one step of "
                f"{at.batch_size} rows over {at.num_ranks} workers: use a smaller spec.batchSize, "
                "or feed.lastBatch: keep"
            )
        return split

    def batches(
        self, at: Pass, stage: Callable[[Batch], Batch] = lambda batch: batch
    ) -> Prefetched[Batch]:
        """Return the batches from `at.first_step` to the end of the pass, made ready in a thread.

        stage: called there with each of them; returns what is given.
        """
        depth = self.plan.feed.prefetch_batches
        return Prefetched(self._batches(self._numbered(at)), depth, finish=stage)

    def columns(self, at: Pass) -> Iterator[Columns]:
        """Yield the columns of each step from `at.first_step` to the end of the pass."""
        for columns, _ in self._tables(self._numbered(at)):
            yield columns

    def _numbered(self, at: Pass) -> Pass:
        # All ranks make the same passes in the same order, so they count alike.
        self._made[at] += 1
        return replace(at, again=self._made[at] - 1)

    def _batches(self, at: Pass) -> Iterator[Batch]:
        split, dtypes = self.split(at), torch_types(self.plan.feed.dtypes)
        for step, (columns, ids) in enumerate(self._tables(at), start=at.first_step):
            tensors = to_tensors(columns, dtypes, self.plan.field)
            yield Batch(tensors, len(ids), split.total(step))

    def _tables(self, at: Pass) -> Iterator[Table]:
        sizes = self.split(at).sizes(self._rank)[at.first_step :]
        tables = (
            self._from_memory(at, sizes) if self._in_memory(at) else recut(self._stream(at), sizes)
        )
        for columns, ids in tables:
            yield self._augmented(at, columns, ids), ids

    def _augmented(self, at: Pass, columns: Columns, ids: Indices) -> Columns:
        if not self.plan.augments_in_worker or at.in_file_order:
            return columns
        return augmented(reading(self.plan, at.seed, at.epoch), columns, ids)

    def _in_memory(self, at: Pass) -> bool:
        if self.plan.cache == "workers":
            return True
        if shuffle_mode(self.plan, at) != "global":
            return False
        return self.plan.cache == "objects" or self.plan.loader == "torch"

    def _from_memory(self, at: Pass, sizes: Indices) -> Iterator[Table]:
        mode = shuffle_mode(self.plan, at)
        if mode == "global":
            total = int(self.counts().sum())
            rows, order = self._all_rows(), rank_rows(self.plan, at, total, self._rank)
        else:
            rows, order = self._own_rows(at), self._own_order(at, mode)
        ends = np.cumsum(sizes)
        for start, stop in zip((ends - sizes).tolist(), ends.tolist(), strict=True):
            wanted = order[start:stop]
            yield rows.take(wanted), rows.ids[wanted]

    def _own_order(self, at: Pass, mode: str) -> Indices:
        """Return what is left of this rank's order in its own rows, shape (rows left,)."""
        split = self.split(at)
        rows, done = split.rank_rows(self._rank), split.rank_rows(self._rank, at.first_step)
        if mode == "local":
            window = self.plan.shuffle.buffer_size
            return local_order(rows, window, at.seed, at.epoch, self._rank)[done:]
        return np.arange(done, rows, dtype=np.int64)

    def _own_rows(self, at: Pass) -> Rows:
        key = (at.kind, at.batch_size)
        if key not in self._kept:
            spans = self.split(at).rank_spans(self._rank)
            self._kept[key] = self._load(spans).compact()
        return self._kept[key]

    def _all_rows(self) -> Rows:
        key = ("all", 0)
        if key not in self._kept:
            self._kept[key] = self._load(np.asarray([[0, self.counts().sum()]]))
        return self._kept[key]

    def _load(self, spans: Indices) -> Rows:
        counts = self.counts()
        pieces = cut(np.arange(len(counts), dtype=np.int64), counts, spans)
        return Rows(list(self._blocks.read(pieces)), piece_ids(pieces, counts))

    def _stream(self, at: Pass) -> Iterator[Table]:
        """Yield the tables of a stream, shuffled in windows where the plan says so."""
        tables = self._as_it_comes(at)
        if shuffle_mode(self.plan, at) != "local":
            return tables
        split, window = self.split(at), self.plan.shuffle.buffer_size
        first = split.rank_rows(self._rank, at.first_step) // window

        def order(number: int, rows: int) -> Indices:
            return window_order(first + number, rows, at.seed, at.epoch, self._rank)

        skip = window_skip(self.plan, at, split, self._rank)
        chunk = max(LEAST_CHUNK_ROWS, *split.sizes(self._rank)[:1].tolist())
        return shuffled(tables, window, order, skip, chunk)

    def _as_it_comes(self, at: Pass) -> Iterator[Table]:
        if shuffle_mode(self.plan, at) == "global":
            pieces: list[Piece] = []
            ids = rank_rows(self.plan, at, int(self.counts().sum()), self._rank)
        else:
            pieces = rank_pieces(self.plan, at, self.counts(), self._rank)
            ids = piece_ids(pieces, self.counts())
        place = 0
        for columns in self._blocks.stream(at, pieces):
            rows = num_rows(columns)
            yield columns, ids[place : place + rows]
            place += rows


def torch_types(names: Mapping[str, str]) -> dict[str, torch.dtype]:
    """Return torch's types by column."""
    return {column: getattr(torch, name) for column, name in names.items()}


def to_tensors(
    columns: Columns, dtypes: Mapping[str, torch.dtype], field: str
) -> dict[str, torch.Tensor]:
    """Return the columns as CPU tensors of their own memory, in the types asked for.

    Raises:
        DataError: when a column holds no numbers.
    """
    tensors = {}
    for name, array in columns.items():
        # A view of the object store is read-only, and torch would warn at each batch.
        owned = np.require(array, requirements=["C", "W"])
        try:
            tensor = torch.from_numpy(owned)
        except TypeError as error:
            kind = type(array.flat[0]).__name__ if array.size else str(array.dtype)
            raise DataError(
                f"{field}: column {name} holds values of {kind}; turn it into numbers by a "
                "transform, or leave it out with read.columns"
            ) from error
        tensors[name] = tensor.to(dtypes[name]) if name in dtypes else tensor
    return tensors
