"""One pass over a dataset: which rows each rank gets, in which order, from where on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainshed.data.order.permutation import (
    Indices,
    Piece,
    cut,
    fragment_order,
    global_order,
    indices,
)
from trainshed.data.order.split import Split, even_split, exact_split, share, training_split

if TYPE_CHECKING:
    from trainshed.data.order.plan import DatasetPlan

Kind = Literal["train", "exact", "whole", "even"]


@dataclass(frozen=True)
class Pass:
    """One pass over a dataset; equal passes on all ranks make one stream.

    Args:
        dataset: its name.
        kind: `train` for steps, `exact` for every row once and in file order, `whole` for that
            on every rank, `even` for equally many rows a rank.
        epoch: 0-based; it decides the order.
        first_step: the step to start from.
        num_ranks: number of workers.
        batch_size: rows a step over all ranks.
        seed: the run's seed.
        group: number of the worker group that asks; a later one takes the streams over.
        epochs: of the run; None when nobody knows, and then no epoch is begun ahead.
        again: how many passes like this one the group made before.
    """

    dataset: str
    kind: Kind
    epoch: int
    first_step: int
    num_ranks: int
    batch_size: int
    seed: int
    group: int = 0
    epochs: int | None = None
    again: int = 0

    @property
    def following(self) -> Pass | None:
        """Return the same pass in the next epoch of training, if there is one."""
        if self.kind != "train" or self.epochs is None or self.epoch + 1 >= self.epochs:
            return None
        return replace(self, epoch=self.epoch + 1, first_step=0, again=0)

    @property
    def in_file_order(self) -> bool:
        """Say whether every row counts the same: nothing is shuffled or augmented."""
        return self.kind in ("exact", "whole")

    def is_before(self, other: Pass) -> bool:
        """Say whether whoever reads the other pass has done with this one."""
        same = (self.dataset, self.kind, self.group) == (other.dataset, other.kind, other.group)
        mine = (self.epoch, self.first_step, self.again)
        return same and mine < (other.epoch, other.first_step, other.again)

    def is_superseded_by(self, other: Pass) -> bool:
        """Say whether a later worker group's pass makes this one useless."""
        return self.group < other.group


@dataclass(frozen=True)
class Delivery:
    """What streams to all ranks in one pass.

    Args:
        pieces: the rows in the order of the stream; empty when it is a global shuffle.
        positions: (rows,) each row's place in the stream of a global shuffle, -1 for rows that are
            left out; empty otherwise.
        turns: (rank, rows) in the order of the stream.
    """

    pieces: list[Piece]
    positions: Indices
    turns: list[tuple[int, int]]


def split_for(plan: DatasetPlan, at: Pass, rows: int) -> Split:
    """Return the steps of a pass over `rows` rows."""
    turn = plan.block_rows
    if at.kind == "exact":
        return exact_split(rows, at.batch_size, at.num_ranks, turn)
    if at.kind == "whole":
        full, rest = divmod(rows, size := share(at.batch_size, at.num_ranks, 0))
        return Split(size, full, rest, at.num_ranks, turn, split=False)
    if at.kind == "even":
        return even_split(rows, at.batch_size, at.num_ranks, plan.split, turn)
    last = plan.feed.last_batch
    return training_split(rows, at.batch_size, at.num_ranks, last, plan.split, turn)


def shuffle_mode(plan: DatasetPlan, at: Pass) -> str:
    """Return the shuffle that holds for a pass: none where every row counts the same."""
    return "none" if at.in_file_order else plan.shuffle.mode


def is_split(plan: DatasetPlan, at: Pass) -> bool:
    """Say whether each rank gets rows of its own in a pass, or all get all."""
    return at.kind == "exact" or (at.kind != "whole" and plan.split)


def epoch_order(plan: DatasetPlan, at: Pass, num_fragments: int) -> Indices:
    """Return the fragments in the order of this pass, shape (fragments,)."""
    if plan.source:
        files = [fragment.file for fragment in plan.source.fragments]
    else:
        files = list(range(num_fragments))
    return fragment_order(files, shuffle_mode(plan, at), at.seed, at.epoch)


def window_skip(plan: DatasetPlan, at: Pass, split: Split, rank: int) -> int:
    """Return how many rows of a rank's stream are done already.

    A local shuffle is replayed from the start of its window.
    """
    if shuffle_mode(plan, at) != "local":
        return 0
    return split.rank_rows(rank, at.first_step) % plan.shuffle.buffer_size


def rank_spans(plan: DatasetPlan, at: Pass, split: Split, rank: int) -> Indices:
    """Return what a rank reads along the order of the pass, shape (spans, 2)."""
    done = split.rank_rows(rank, at.first_step) - window_skip(plan, at, split, rank)
    return split.rank_spans(rank, done)


def rank_pieces(plan: DatasetPlan, at: Pass, counts: Indices, rank: int) -> list[Piece]:
    """Return the pieces that a rank reads, in its order."""
    split = split_for(plan, at, int(counts.sum()))
    spans = rank_spans(plan, at, split, rank)
    return cut(epoch_order(plan, at, len(counts)), counts, spans)


def rank_rows(plan: DatasetPlan, at: Pass, rows: int, rank: int) -> Indices:
    """Return the dataset's rows of a rank in a global shuffle, shape (rows left,)."""
    spans = rank_spans(plan, at, split_for(plan, at, rows), rank)
    return global_order(rows, at.seed, at.epoch)[indices(spans)]


def delivery(plan: DatasetPlan, at: Pass, counts: Indices) -> Delivery:
    """Return what streams in a pass: the rows of all ranks, turn by turn."""
    rows = int(counts.sum())
    split = split_for(plan, at, rows)
    ranks = range(at.num_ranks) if is_split(plan, at) else range(1)
    spans_by_rank = [rank_spans(plan, at, split, rank) for rank in ranks]
    spans = np.concatenate(spans_by_rank)
    owner = np.repeat(ranks, [len(spans) for spans in spans_by_rank])
    by_start = np.argsort(spans[:, 0], kind="stable")
    spans, owner = spans[by_start], owner[by_start]
    lengths = spans[:, 1] - spans[:, 0]
    turns = list(zip(owner.tolist(), lengths.tolist(), strict=True))
    if shuffle_mode(plan, at) != "global":
        order = epoch_order(plan, at, len(counts))
        return Delivery(cut(order, counts, _merged(spans)), np.empty(0, dtype=np.int64), turns)
    positions = np.full(rows, -1, dtype=np.int64)
    positions[global_order(rows, at.seed, at.epoch)[indices(spans)]] = np.arange(lengths.sum())
    return Delivery([], positions, turns)


def _merged(spans: Indices) -> Indices:
    """Return the spans with neighbours that touch made one."""
    if not len(spans):
        return spans
    begins = np.flatnonzero(np.concatenate([[True], spans[1:, 0] != spans[:-1, 1]]))
    ends = np.concatenate([begins[1:], [len(spans)]]) - 1
    return np.stack([spans[begins, 0], spans[ends, 1]], axis=1)
