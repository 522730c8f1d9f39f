"""One pass over a dataset: the rows of each rank, their order, and where it starts. Pure."""

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
from trainshed.data.sampler.mixing import Concatenated, Interleave, MixedOrder, Segment
from trainshed.data.sampler.permutation import (
    GLOBAL,
    LOCAL,
    SAME_SLOTS,
    EpochPermutation,
    Indices,
    fragment_order,
)
from trainshed.data.sampler.randomness import RowRandom
from trainshed.data.sampler.shuffle_windows import ShuffleWindows, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan

Kind = Literal["train", "exact", "whole", "even"]
# Numbers from which the beginning of an epoch's windows is drawn.
SHIFTS = 2**31


@dataclass(frozen=True)
class EpochPass:
    """One pass over a dataset; equal passes on all ranks share one stream.

    Args:
        dataset: its name.
        kind: `train` for steps, `exact` for every row once in file order, `whole` for that on
            every rank, `even` for equally many rows per rank.
        epoch: 0-based; it decides the order.
        first_step: the step to start from.
        world_size: number of workers.
        batch_size: rows per step over all ranks.
        seed: the run's seed.
        group: number of the worker group; a later group takes over the streams.
        epochs: of the run; if None, no epoch is started ahead.
        again: number of earlier passes like this one in the group.
        is_kept: whether ranks keep these rows: in file order, and augmented later each time.
    """

    dataset: str
    kind: Kind
    epoch: int
    first_step: int
    world_size: int
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
        """Return whether nothing is shuffled or augmented."""
        return self.is_kept or self.kind in ("exact", "whole")

    def is_before(self, other: EpochPass) -> bool:
        """Return whether a reader of the other pass has finished this one."""
        same = (self.dataset, self.kind, self.group) == (other.dataset, other.kind, other.group)
        return same and self.when < other.when

    @property
    def when(self) -> tuple[int, int, int]:
        """Return a key that orders passes of a kind over a dataset."""
        return self.epoch, self.first_step, self.again


@dataclass(frozen=True)
class Delivery:
    """The stream of a pass to all ranks: chunk by chunk, in the order of `BatchLayout.pieces`.

    Args:
        steps: of the pass.
        turns: starts of the delivery chunks in the epoch's order, and the end of the last one.
        tasks: the starts that begin a task, and the end.
        places: (rows of the dataset,) each row's position in the stream of a global shuffle, -1 for
            rows that are left out; None if the stream follows the fragments.
        dealt: (ranks, rows) in the order of the stream.
    """

    steps: BatchLayout
    turns: list[int]
    tasks: list[int]
    places: Indices | None
    dealt: list[tuple[Sequence[int], int]]

    def turns_by_task(self) -> Iterator[list[int]]:
        """Yield the chunk starts of each task, with the end of its last chunk."""
        for begin, end in pairwise(self.tasks):
            yield self.turns[bisect_left(self.turns, begin) : bisect_left(self.turns, end) + 1]


def steps_for(plan: DatasetPlan, at: EpochPass, rows: int) -> BatchLayout:
    """Return the steps of a pass over a dataset of `rows` rows."""
    if at.kind == "exact":
        return exact_steps(rows, at.batch_size, at.world_size)
    if at.kind == "whole":
        return whole_steps(rows, at.batch_size, at.world_size)
    rows = plan.spec.rows_per_epoch or rows
    if at.kind == "even":
        return even_steps(rows, at.batch_size, at.world_size, plan.spec.split)
    steps = training_steps(
        rows, at.batch_size, at.world_size, plan.spec.feed.last_batch, plan.spec.split
    )
    if plan.order == SAME_SLOTS or not plan.shuffle_buffer_rows:
        return steps
    return replace(steps, rotation=at.seed)  # the same in all epochs: ranks may keep their rows


def shuffle_mode(plan: DatasetPlan, at: EpochPass) -> str:
    """Return the effective shuffle of a pass."""
    return "none" if at.in_file_order else plan.spec.shuffle.mode


def order_of(plan: DatasetPlan, at: EpochPass, *counts: Indices) -> EpochPermutation | MixedOrder:
    """Return the order of a pass.

    Args:
        plan: of the dataset.
        at: the pass.
        counts: (fragments,) rows of each fragment after the transforms, for each mixed dataset, or
            for the dataset itself.
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
    rows = plan.spec.rows_per_epoch or sum(sizes)
    # The rest of the rows starts the next epoch; it does not depend on the number of ranks.
    taken = rows if plan.spec.feed.last_batch == "keep" else rows - rows % at.batch_size
    pattern = Interleave(plan.weights or (1.0,))
    return MixedOrder(pattern, bases, sizes, rows, at.epoch * taken)


def part_of(plan: DatasetPlan, part: DatasetPlan, at: EpochPass) -> EpochPass:
    """Return a pass with a separate seed for each mixed dataset."""
    if part is plan:
        return at
    return replace(at, seed=(at.seed << 32) + zlib.crc32(part.name.encode()))


def is_mixed(plan: DatasetPlan, at: EpochPass) -> bool:
    """Return whether a pass has rows of several datasets, or not all rows of one."""
    return bool(plan.parts) or (plan.spec.rows_per_epoch is not None and not at.in_file_order)


def _own_order(plan: DatasetPlan, at: EpochPass, epoch: int, counts: Indices) -> EpochPermutation:
    """Return the order of all rows of a dataset in an epoch."""
    mode = shuffle_mode(plan, at)
    if plan.source and not plan.is_made_whole:
        files = plan.source.fragments.file.tolist()
    else:
        files = list(range(len(counts)))
    mixed = None
    if mode == "global":
        mixed = np.random.default_rng([at.seed, GLOBAL, epoch]).permutation(int(counts.sum()))
    order = fragment_order(files, mode, at.seed, epoch)
    return EpochPermutation(order, counts, mixed, plan.given_ids)


def segments_of(
    base: EpochPermutation | MixedOrder, at: EpochPass, start: int, stop: int
) -> Iterable[Segment]:
    """Return the rows at positions [start, stop) of an order, dataset by dataset."""
    if isinstance(base, MixedOrder):
        return base.segments(start, stop)
    return [Segment(0, at.epoch, base.pieces(start, stop))]


def windows_of(plan: DatasetPlan, at: EpochPass, steps: BatchLayout) -> ShuffleWindows | None:
    """Return the shuffle windows of a pass, if it has any."""
    rows = plan.shuffle_buffer_rows
    if at.in_file_order or not rows:
        return None
    span, shift = span_of(rows, steps.size), window_shift(plan, at.seed, at.epoch)
    return ShuffleWindows(steps, span, at.seed, at.epoch, shift % span)


def window_shift(plan: DatasetPlan, seed: int, epoch: int) -> int:
    """Return a number by which the windows of an epoch begin earlier, modulo their length."""
    if plan.order == SAME_SLOTS:
        return 0
    return int(RowRandom(seed, epoch, np.zeros(1, np.int64), LOCAL).integers(0, SHIFTS)[0])


def first_read(plan: DatasetPlan, at: EpochPass, steps: BatchLayout) -> int:
    """Return the step to read a pass from: the first one of its first step's window."""
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
    """Return the stream of a pass: the rows of all ranks, chunk by chunk.

    Args:
        plan: of the dataset.
        at: the pass.
        base: its order.
        turn_rows: maximum rows of a chunk of more than one step: of the first, and of all.
        task_rows: maximum rows of a task of more than one fragment, or chunk.
        by_fragments: whether a task ends with a fragment, even within a step, so that no two tasks
            decode one fragment. Otherwise it ends with a chunk.
    """
    steps = steps_for(plan, at, base.rows)
    begin = steps.start(first_read(plan, at, steps))
    first, span = (max(1, int(rows) // steps.size) for rows in turn_rows)
    turns = growing_turns(steps, begin, steps.rows, first, span)
    if by_fragments:
        # A task ends with a fragment.
        segments = segments_of(base, at, begin, turns[-1])
        rows = (piece.rows for segment in segments for piece in segment.pieces)
        ends = [begin + end for end in accumulate(rows)]
        if steps.borrowers:  # repeated rows need their whole step
            last = steps.start(steps.full)
            ends = [end for end in ends if not last < end < steps.rows]
        tasks = grouped([begin, *ends], task_rows)
        cut = (
            growing_turns(steps, start, stop, first if start == begin else span, span)
            for start, stop in pairwise(tasks)
        )
        turns = sorted({begin, *chain.from_iterable(cut)})
    else:
        tasks = grouped(turns, task_rows)
    dealt = [entry for start, stop in pairwise(turns) for entry in _dealt(steps, start, stop)]
    if steps.has_one_reader and dealt:  # a stream with one reader needs no chunk boundaries
        dealt = [(dealt[0][0], sum(rows for _, rows in dealt))]
    if isinstance(base, MixedOrder) or base.mixed is None:
        return Delivery(steps, turns, tasks, None, dealt)
    streamed = [
        np.arange(start, stop, dtype=np.int64)[steps.within(rank, start, stop)]
        for start, stop in pairwise(turns)
        for rank in steps.owners(start // steps.size)
    ]
    order = base.positions(np.concatenate([*streamed, np.empty(0, dtype=np.int64)]))
    places = np.full(base.rows, -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return Delivery(steps, turns, tasks, places, dealt)


def turns_of(steps: BatchLayout, start: int, stop: int, span: int) -> list[int]:
    """Return the chunk starts of the rows [start, stop) of an order, and the end of the last.

    Chunks have similar lengths, up to a number of steps; a smaller last step is a chunk.
    """
    first, last = start // steps.size, min(-(-stop // steps.size), steps.full)
    count = -(-(last - first) // span)
    cuts = [steps.start(first + (last - first) * turn // count) for turn in range(1, count)]
    return sorted({start, *cuts, max(start, min(stop, steps.start(steps.full))), stop})


def growing_turns(steps: BatchLayout, start: int, stop: int, first: int, span: int) -> list[int]:
    """Return chunk starts that double: the first chunk is small, as its reader waits for it.

    Args:
        steps: of the pass.
        start: of the rows.
        stop: of the rows.
        first: steps of the first chunk.
        span: maximum steps of a chunk.
    """
    turns, begun, done = [start], start // steps.size, first
    while done < span and start < (end := steps.start(min(begun + done, steps.full))) < stop:
        turns.append(end)
        done *= 2
    return sorted({*turns, *turns_of(steps, turns[-1], stop, span)})


def grouped(cuts: Sequence[int], most_rows: float) -> list[int]:
    """Return the cuts at which tasks begin, and the last one.

    A task exceeds `most_rows` only if there is no cut in between.
    """
    bounds = [cuts[0]]
    for begin, end in pairwise(cuts):
        if begin > bounds[-1] and end - bounds[-1] > most_rows:
            bounds.append(begin)
    return sorted({*bounds, cuts[-1]})


def _dealt(steps: BatchLayout, start: int, stop: int) -> list[tuple[Sequence[int], int]]:
    """Return the ranks and numbers of rows of a chunk, in order."""
    everybody = range(steps.world_size)
    if not steps.split:
        return [(everybody, stop - start)]
    if start == steps.start(steps.full) and steps.borrowers:  # each rank before has one row
        owner = steps.last - 1
        return [*(([rank], 1) for rank in range(owner)), ([owner, *steps.borrowers], 1)]
    return [([rank], rows) for rank, rows in steps.pieces(start, stop) if rows]
