"""One pass over a dataset: which rows each rank gets, in which order, from where on. Pure."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainshed.data.sampler.batch_layout import (
    BatchLayout,
    even_steps,
    exact_steps,
    training_steps,
    whole_steps,
)
from trainshed.data.sampler.epoch_order import EpochPermutation
from trainshed.data.sampler.mixing import Concatenated, Interleave, MixedOrder, Segment
from trainshed.data.sampler.permutation import Indices, fragment_order, global_order
from trainshed.data.sampler.shuffle_windows import ShuffleWindows, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan

Kind = Literal["train", "exact", "whole", "even"]


@dataclass(frozen=True)
class EpochPass:
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
        is_kept: whether ranks keep these rows: in file order, and augmented each time later.
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
    is_kept: bool = False

    @property
    def following(self) -> EpochPass | None:
        """Return the same pass in the next epoch of training, if there is one."""
        if self.kind != "train" or self.epochs is None or self.epoch + 1 >= self.epochs:
            return None
        return replace(self, epoch=self.epoch + 1, first_step=0, again=0)

    @property
    def in_file_order(self) -> bool:
        """Say whether nothing is shuffled or augmented."""
        return self.is_kept or self.kind in ("exact", "whole")

    def is_before(self, other: EpochPass) -> bool:
        """Say whether whoever reads the other pass has done with this one."""
        same = (self.dataset, self.kind, self.group) == (other.dataset, other.kind, other.group)
        return same and self.when < other.when

    @property
    def when(self) -> tuple[int, int, int]:
        """Return what tells which of two passes of a kind over a dataset comes first."""
        return self.epoch, self.first_step, self.again


@dataclass(frozen=True)
class Delivery:
    """What streams to all ranks in one pass: turn by turn, and in each rank by rank.

    Args:
        steps: of the pass.
        turns: where turns begin along the epoch's order, and where the last one ends.
        tasks: those of them at which a task begins, and that end.
        places: (rows of the dataset,) each row's place in the stream of a global shuffle, -1 for
            rows that are left out; None where the stream follows the fragments.
        dealt: (ranks that get them, rows) in the order of the stream.
    """

    steps: BatchLayout
    turns: list[int]
    tasks: list[int]
    places: Indices | None
    dealt: list[tuple[Sequence[int], int]]

    def turns_by_task(self) -> Iterator[list[int]]:
        """Yield where the turns of each task begin, and where its last one ends."""
        for begin, end in pairwise(self.tasks):
            yield self.turns[bisect_left(self.turns, begin) : bisect_left(self.turns, end) + 1]


def steps_for(plan: DatasetPlan, at: EpochPass, rows: int) -> BatchLayout:
    """Return the steps of a pass over a dataset of `rows` rows."""
    if at.kind == "exact":
        return exact_steps(rows, at.batch_size, at.num_ranks)
    if at.kind == "whole":
        return whole_steps(rows, at.batch_size, at.num_ranks)
    rows = plan.rows_per_epoch or rows
    if at.kind == "even":
        return even_steps(rows, at.batch_size, at.num_ranks, plan.split)
    return training_steps(rows, at.batch_size, at.num_ranks, plan.feed.last_batch, plan.split)


def shuffle_mode(plan: DatasetPlan, at: EpochPass) -> str:
    """Return the shuffle that holds for a pass."""
    return "none" if at.in_file_order else plan.shuffle.mode


def order_of(plan: DatasetPlan, at: EpochPass, *counts: Indices) -> EpochPermutation | MixedOrder:
    """Return the order of a pass.

    Args:
        plan: of the dataset.
        at: the pass.
        counts: (fragments,) rows of each fragment after the transforms, for each dataset that is
            mixed; of the dataset itself where none is.
    """
    if not is_mixed(plan, at):
        return _own_order(plan, at, at.epoch, counts[0])
    bases = [
        cache(partial(_own_order, part, part_of(plan, part, at), counts=each))
        for part, each in zip(plan.parts or (plan,), counts, strict=True)
    ]
    sizes = tuple(int(each.sum()) for each in counts)
    if at.in_file_order:
        return MixedOrder(Concatenated(sizes), bases, sizes, sum(sizes), begin=0)
    rows = plan.rows_per_epoch or sum(sizes)
    # What no step takes is left for the next epoch; of how many ranks there are it knows nothing.
    taken = rows if plan.feed.last_batch == "keep" else rows - rows % at.batch_size
    pattern = Interleave(plan.weights or (1.0,))
    return MixedOrder(pattern, bases, sizes, rows, at.epoch * taken)


def part_of(plan: DatasetPlan, part: DatasetPlan, at: EpochPass) -> EpochPass:
    """Return a pass with the seed of a dataset that is mixed: each draws numbers of its own."""
    if part is plan:
        return at
    return replace(at, seed=(at.seed << 32) + zlib.crc32(part.name.encode()))


def is_mixed(plan: DatasetPlan, at: EpochPass) -> bool:
    """Say whether a pass has rows of several datasets, or not just all of one."""
    return bool(plan.parts) or (plan.rows_per_epoch is not None and not at.in_file_order)


def _own_order(plan: DatasetPlan, at: EpochPass, epoch: int, counts: Indices) -> EpochPermutation:
    """Return the order of all rows of a dataset in an epoch."""
    mode = shuffle_mode(plan, at)
    if plan.source and not plan.is_made_whole:
        files = [fragment.file for fragment in plan.source.fragments]
    else:
        files = list(range(len(counts)))
    mixed = global_order(int(counts.sum()), at.seed, epoch) if mode == "global" else None
    order = fragment_order(files, mode, at.seed, epoch)
    return EpochPermutation(order, counts, mixed, plan.given_ids)


def segments_of(
    base: EpochPermutation | MixedOrder, at: EpochPass, start: int, stop: int
) -> Iterable[Segment]:
    """Return the rows at places [start, stop) of an order, dataset by dataset."""
    if isinstance(base, MixedOrder):
        return base.segments(start, stop)
    return [Segment(0, at.epoch, base.pieces(start, stop))]


def windows_of(plan: DatasetPlan, at: EpochPass, steps: BatchLayout) -> ShuffleWindows | None:
    """Return the windows that a pass is mixed in, if it is."""
    rows = plan.mixed_rows
    if at.in_file_order or not rows:
        return None
    return ShuffleWindows(steps, span_of(rows, steps.size), at.seed, at.epoch)


def first_read(plan: DatasetPlan, at: EpochPass, steps: BatchLayout) -> int:
    """Return the step that a pass is read from: that of its first step's window."""
    windows = windows_of(plan, at, steps)
    return windows.first(at.first_step) if windows else at.first_step


def delivery(  # noqa: PLR0913 - what a pass is made of, and how large its parts are
    plan: DatasetPlan,
    at: EpochPass,
    base: EpochPermutation | MixedOrder,
    turn_rows: tuple[float, float],
    task_rows: float,
    *,
    by_fragments: bool,
) -> Delivery:
    """Return what streams in a pass: the rows of all ranks, turn by turn.

    Args:
        plan: of the dataset.
        at: the pass.
        base: its order.
        turn_rows: most rows of a turn of more than one step: of the first, and of all.
        task_rows: most rows of a task of more than one fragment, or turn.
        by_fragments: whether a task ends where a fragment does, in the middle of a step too: two
            tasks would decode its beginning. Else it ends at a turn.
    """
    steps = steps_for(plan, at, base.rows)
    begin = steps.start(first_read(plan, at, steps))
    first, span = (max(1, int(rows) // steps.size) for rows in turn_rows)
    turns = growing_turns(steps, begin, steps.rows, first, span)
    if by_fragments:
        ends = fragment_ends(base, at, begin, turns[-1])
        tasks = grouped([begin, *(end for end in ends if may_cut(steps, end))], task_rows)
        cut = (
            growing_turns(steps, start, stop, first if start == begin else span, span)
            for start, stop in pairwise(tasks)
        )
        turns = sorted({begin, *chain.from_iterable(cut)})
    else:
        tasks = grouped(turns, task_rows)
    dealt = [entry for start, stop in pairwise(turns) for entry in _dealt(steps, start, stop)]
    if steps.has_one_reader and dealt:  # a stream that nobody else takes of is not cut at turns
        dealt = [(dealt[0][0], sum(rows for _, rows in dealt))]
    if isinstance(base, MixedOrder) or base.mixed is None:
        return Delivery(steps, turns, tasks, None, dealt)
    streamed = [
        np.arange(start, stop, dtype=np.int64)[steps.within(rank, start, stop)]
        for start, stop in pairwise(turns)
        for rank in steps.owners(start // steps.size)
    ]
    rows = base.positions(np.concatenate([*streamed, np.empty(0, dtype=np.int64)]))
    places = np.full(base.rows, -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return Delivery(steps, turns, tasks, places, dealt)


def turns_of(steps: BatchLayout, start: int, stop: int, span: int) -> list[int]:
    """Return where turns begin of the rows [start, stop) of an order, and where the last one ends.

    They are about as long, so many steps at most; the smaller step at the end has one of its own.
    """
    first, last = start // steps.size, min(-(-stop // steps.size), steps.full)
    count = -(-(last - first) // span)
    cuts = [steps.start(first + (last - first) * turn // count) for turn in range(1, count)]
    return sorted({start, *cuts, max(start, min(stop, steps.start(steps.full))), stop})


def growing_turns(steps: BatchLayout, start: int, stop: int, first: int, span: int) -> list[int]:
    """Return where turns begin, the first of which somebody waits for: each is as all before it.

    Args:
        steps: of the pass.
        start: of the rows.
        stop: of the rows.
        first: steps of the first turn.
        span: most steps of a turn.
    """
    turns, begun, done = [start], start // steps.size, first
    while done < span and start < (end := steps.start(min(begun + done, steps.full))) < stop:
        turns.append(end)
        done *= 2
    return sorted({*turns, *turns_of(steps, turns[-1], stop, span)})


def fragment_ends(
    base: EpochPermutation | MixedOrder, at: EpochPass, start: int, stop: int
) -> Sequence[int]:
    """Return where fragments with the rows [start, stop) of an order end in it, up to `stop`."""
    pieces = [piece for each in segments_of(base, at, start, stop) for piece in each.pieces]
    return [start + end for end in accumulate(piece.rows for piece in pieces)]


def may_cut(steps: BatchLayout, place: int) -> bool:
    """Say whether a turn may end there: one in which rows are lent is dealt in one go."""
    return not steps.borrowers or not steps.start(steps.full) < place < steps.rows


def grouped(cuts: Sequence[int], most_rows: float) -> list[int]:
    """Return at which of the cuts tasks begin, and the last one.

    A task has more rows than `most_rows` only where there is no cut in between.
    """
    bounds = [cuts[0]]
    for begin, end in pairwise(cuts):
        if begin > bounds[-1] and end - bounds[-1] > most_rows:
            bounds.append(begin)
    return sorted({*bounds, cuts[-1]})


def _dealt(steps: BatchLayout, start: int, stop: int) -> list[tuple[Sequence[int], int]]:
    """Return who gets how many rows of a turn, one after the other."""
    everybody = range(steps.num_ranks)
    if not steps.split:
        return [(everybody, stop - start)]
    if start == steps.start(steps.full) and steps.borrowers:  # each rank before them has one row
        owner = steps.last - 1
        return [*(([rank], 1) for rank in range(owner)), ([owner, *steps.borrowers], 1)]
    counts = ((rank, steps.rows_within(rank, start, stop)) for rank in everybody)
    return [([rank], rows) for rank, rows in counts if rows]
