"""One pass over a dataset: which pieces each rank gets, from which row it starts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainshed.data.order import Indices, Piece, cut, fragment_order, global_order
from trainshed.data.split import Split, even_split, exact_split, training_split

if TYPE_CHECKING:
    from trainshed.data.plan import DatasetPlan

Kind = Literal["train", "exact", "even"]
# Batches that a rank gets in a row before the next rank's turn, when a global shuffle streams.
BATCHES_A_TURN = 8


@dataclass(frozen=True)
class Pass:
    """One pass over a dataset; equal passes on all ranks make one stream.

    Args:
        dataset: its name.
        kind: `train` for steps, `exact` for every row once and in file order, `even` for
            equally many rows a rank.
        epoch: 0-based; it decides the order.
        first_step: the step to start from.
        num_ranks: number of workers.
        batch_size: rows a step over all ranks.
        seed: the run's seed.
        group: the worker group that asks, so that a restarted group gets a stream of its own.
    """

    dataset: str
    kind: Kind
    epoch: int
    first_step: int
    num_ranks: int
    batch_size: int
    seed: int
    group: int = 0


def split_for(plan: DatasetPlan, at: Pass, rows: int) -> Split:
    """Return the steps of a pass over `rows` rows."""
    if at.kind == "exact":
        return exact_split(rows, at.batch_size, at.num_ranks)
    if at.kind == "even":
        return even_split(rows, at.batch_size, at.num_ranks, plan.split)
    return training_split(rows, at.batch_size, at.num_ranks, plan.feed.last_batch, plan.split)


def shuffle_mode(plan: DatasetPlan, at: Pass) -> str:
    """Return the shuffle that holds for a pass: none where every row counts the same."""
    return "none" if at.kind == "exact" else plan.shuffle.mode


def epoch_order(plan: DatasetPlan, at: Pass, num_fragments: int) -> Indices:
    """Return the fragments in the order of this pass, shape (fragments,)."""
    if plan.source:
        files = [fragment.file for fragment in plan.source.fragments]
    else:
        files = list(range(num_fragments))
    return fragment_order(files, shuffle_mode(plan, at), at.seed, at.epoch)


def stream_bounds(plan: DatasetPlan, at: Pass, split: Split, rank: int) -> tuple[int, int, int]:
    """Return (start, stop, skip): the rank's rows along the order, and how many to drop first.

    A local shuffle is replayed from the start of its window, hence the rows to drop.
    """
    start, stop = split.bounds(rank)
    done = int(split.sizes(rank)[: at.first_step].sum())
    skip = done % plan.shuffle.buffer_size if shuffle_mode(plan, at) == "local" else 0
    return start + done - skip, stop, skip


def rank_pieces(plan: DatasetPlan, at: Pass, counts: Indices, rank: int) -> list[Piece]:
    """Return the pieces that a rank reads, in its order."""
    split = split_for(plan, at, int(counts.sum()))
    start, stop, _ = stream_bounds(plan, at, split, rank)
    return cut(epoch_order(plan, at, len(counts)), counts, start, stop)


def rank_rows(plan: DatasetPlan, at: Pass, rows: int, rank: int) -> Indices:
    """Return the dataset's rows of a rank in a global shuffle, shape (rows left,)."""
    split = split_for(plan, at, rows)
    start, stop, _ = stream_bounds(plan, at, split, rank)
    return global_order(rows, at.seed, at.epoch)[start:stop]


def delivery(plan: DatasetPlan, at: Pass, rows: int) -> tuple[Indices, list[tuple[int, int]]]:
    """Return where each row goes when a global shuffle streams.

    Returns:
        positions: (rows,) each row's place in the stream, -1 for rows that this pass leaves out.
        turns: (rank, rows) in the order of the stream.
    """
    turn = max(1, at.batch_size // at.num_ranks) * BATCHES_A_TURN
    ranks = [rank_rows(plan, at, rows, rank) for rank in range(at.num_ranks)]
    positions = np.full(rows, -1, dtype=np.int64)
    turns: list[tuple[int, int]] = []
    place = 0
    for begin in range(0, max(len(mine) for mine in ranks), turn):
        for rank, mine in enumerate(ranks):
            now = mine[begin : begin + turn]
            positions[now] = np.arange(place, place + len(now))
            place += len(now)
            turns.append((rank, len(now)))
    return positions, turns
