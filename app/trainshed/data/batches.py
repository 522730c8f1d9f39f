"""A rank's batches of one pass: stream or memory -> local shuffle -> steps -> augment -> tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from trainshed.data.columns import Columns, cut_rows, join, num_rows
from trainshed.data.order import Indices, Piece, cut, local_order, window_order
from trainshed.data.prefetch import prefetched
from trainshed.data.rows import Rows
from trainshed.data.schedule import (
    Pass,
    rank_pieces,
    rank_rows,
    shuffle_mode,
    split_for,
    stream_bounds,
)
from trainshed.data.source import augmented, first_rows, piece_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from trainshed.data.plan import DatasetPlan
    from trainshed.data.split import Split

Table = tuple[Columns, Indices]
NOTHING: Table = ({}, np.empty(0, dtype=np.int64))


class Blocks(Protocol):
    """Where a rank gets the rows of a dataset from."""

    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,)."""
        ...

    def read(self, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the pieces' rows as the transforms left them."""
        ...

    def stream(self, at: Pass, pieces: list[Piece]) -> Iterator[Columns]:
        """Yield the rank's rows of a pass, augmented already unless the plan says in the worker."""
        ...


@dataclass(frozen=True)
class Batch:
    """One rank batch.

    Args:
        tensors: by column; the first axis is the row. They lie on the CPU.
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

    def counts(self) -> Indices:
        """Return the rows of each fragment after the transforms; a cached dataset is waited for."""
        if self._counts is None:
            self._counts = self._blocks.counts()
        return self._counts

    def split(self, at: Pass) -> Split:
        """Return the steps of a pass."""
        return split_for(self.plan, at, int(self.counts().sum()))

    def batches(self, at: Pass) -> Generator[Batch, None, None]:
        """Yield the batches from `at.first_step` to the end of the pass, made ready in a thread."""
        return prefetched(self._batches(at), self.plan.feed.prefetch_batches)

    def columns(self, at: Pass) -> Iterator[Columns]:
        """Yield the columns of each step from `at.first_step` to the end of the pass."""
        sizes = self.split(at).sizes(self._rank)[at.first_step :]
        tables = self._from_memory(at, sizes) if self._in_memory(at) else self._cut(at, sizes)
        for columns, ids in tables:
            if self.plan.augments_in_worker and at.kind != "exact":
                columns = augmented(self.plan, columns, ids, at.seed, at.epoch)
            yield columns

    def _batches(self, at: Pass) -> Iterator[Batch]:
        split = self.split(at)
        for offset, columns in enumerate(self.columns(at)):
            total = split.total(at.first_step + offset)
            yield Batch(to_tensors(columns, self.plan.feed.dtypes), num_rows(columns), total)

    def _in_memory(self, at: Pass) -> bool:
        if self.plan.cache == "workers":
            return True
        if shuffle_mode(self.plan, at) != "global":
            return False
        return self.plan.cache == "objects" or self.plan.loader == "torch"

    def _from_memory(self, at: Pass, sizes: Indices) -> Iterator[Table]:
        mode = shuffle_mode(self.plan, at)
        total = int(self.counts().sum())
        if mode == "global":
            rows, order = self._all_rows(), rank_rows(self.plan, at, total, self._rank)
        else:
            rows, order = self._own_rows(at), self._own_order(at, mode)
        ends = np.cumsum(sizes)
        for start, stop in zip(ends - sizes, ends, strict=True):
            wanted = order[start:stop]
            yield rows.take(wanted), rows.ids[wanted]

    def _own_order(self, at: Pass, mode: str) -> Indices:
        """Return what is left of this rank's order in its own rows, shape (rows left,)."""
        split = self.split(at)
        start, stop = split.bounds(self._rank)
        done = int(split.sizes(self._rank)[: at.first_step].sum())
        if mode == "local":
            window = self.plan.shuffle.buffer_size
            return local_order(stop - start, window, at.seed, at.epoch, self._rank)[done:]
        return np.arange(stop - start, dtype=np.int64)[done:]

    def _own_rows(self, at: Pass) -> Rows:
        key = (at.kind, at.batch_size)
        if key not in self._kept:
            start, stop = self.split(at).bounds(self._rank)
            pieces = _whole_range(self.counts(), start, stop)
            self._kept[key] = self._load(pieces).compact()
        return self._kept[key]

    def _all_rows(self) -> Rows:
        key = ("all", 0)
        if key not in self._kept:
            self._kept[key] = self._load(_whole_range(self.counts(), 0, int(self.counts().sum())))
        return self._kept[key]

    def _load(self, pieces: list[Piece]) -> Rows:
        firsts = first_rows(self.counts())
        ids = [piece_ids(piece, firsts) for piece in pieces]
        return Rows(list(self._blocks.read(pieces)), np.concatenate(ids))

    def _cut(self, at: Pass, sizes: Indices) -> Iterator[Table]:
        """Yield the tables of a stream, cut to `sizes` rows each."""
        window = self.plan.shuffle.buffer_size if shuffle_mode(self.plan, at) == "local" else None
        tables = self._stream(at)
        if window:
            split = self.split(at)
            _, _, skip = stream_bounds(self.plan, at, split, self._rank)
            done = int(split.sizes(self._rank)[: at.first_step].sum())
            tables = _shuffled(
                tables,
                window,
                lambda number, rows: window_order(
                    number + done // window, rows, at.seed, at.epoch, self._rank
                ),
            )
            tables = _skipped(tables, skip)
        return recut(tables, sizes)

    def _stream(self, at: Pass) -> Iterator[Table]:
        if shuffle_mode(self.plan, at) == "global":
            order = rank_rows(self.plan, at, int(self.counts().sum()), self._rank)
            place = 0
            for columns in self._blocks.stream(at, []):
                rows = num_rows(columns)
                yield columns, order[place : place + rows]
                place += rows
            return
        firsts = first_rows(self.counts())
        pieces = rank_pieces(self.plan, at, self.counts(), self._rank)
        all_ids = [piece_ids(piece, firsts) for piece in pieces]
        ids = np.concatenate(all_ids) if all_ids else np.empty(0, dtype=np.int64)
        place = 0
        for columns in self._blocks.stream(at, pieces):
            rows = num_rows(columns)
            yield columns, ids[place : place + rows]
            place += rows


def recut(tables: Iterator[Table], sizes: Indices) -> Iterator[Table]:
    """Yield the same rows in tables of the given sizes, which may be 0; views where possible."""
    held: list[Table] = []
    have = 0
    for size in sizes:
        while have < size:
            table = next(tables)
            held.append(table)
            have += len(table[1])
        joined, ids = _join(held) if held else NOTHING
        yield cut_rows(joined, 0, int(size)), ids[:size]
        held = [(cut_rows(joined, int(size), have), ids[size:])]
        have -= int(size)


def to_tensors(columns: Columns, dtypes: dict[str, str]) -> dict[str, torch.Tensor]:
    """Return the columns as CPU tensors of their own memory, in the types asked for."""
    tensors = {}
    for name, array in columns.items():
        # A view of the object store is read-only, and torch would warn at each batch.
        owned = array if array.flags.writeable else array.copy()
        tensor = torch.from_numpy(np.ascontiguousarray(owned))
        tensors[name] = tensor.to(getattr(torch, dtypes[name])) if name in dtypes else tensor
    return tensors


def _whole_range(counts: Indices, start: int, stop: int) -> list[Piece]:
    return cut(np.arange(len(counts), dtype=np.int64), counts, start, stop)


def _join(tables: list[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]
    full = [table for table in tables if len(table[1])] or tables[:1]
    return join([columns for columns, _ in full]), np.concatenate([ids for _, ids in full])


def _shuffled(
    tables: Iterator[Table], window: int, order: Callable[[int, int], Indices]
) -> Iterator[Table]:
    """Yield the rows window by window, each in the order that `order(number, rows)` gives."""
    held: list[Table] = []
    have = number = 0
    for table in tables:
        held.append(table)
        have += len(table[1])
        while have >= window:
            columns, ids = _join(held)
            yield _taken(cut_rows(columns, 0, window), ids[:window], order(number, window))
            held, have = [(cut_rows(columns, window, have), ids[window:])], have - window
            number += 1
    if have:
        columns, ids = _join(held)
        yield _taken(columns, ids, order(number, have))


def _taken(columns: Columns, ids: Indices, order: Indices) -> Table:
    return {name: array[order] for name, array in columns.items()}, ids[order]


def _skipped(tables: Iterator[Table], rows: int) -> Iterator[Table]:
    """Yield the tables without their first `rows` rows."""
    for columns, ids in tables:
        if rows >= len(ids):
            rows -= len(ids)
            continue
        yield cut_rows(columns, rows, len(ids)), ids[rows:]
        rows = 0
