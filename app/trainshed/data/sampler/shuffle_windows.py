"""The order of a shuffle buffer: rows move between steps within a rank's slots. Pure.

`shuffled` of data/loader/table_streams.py holds the rows and gives them out in this order.

A window is as many steps as the buffers of all workers hold; a resumed run restarts at the first
row of its window. Windows begin at other steps in each epoch, so that rows of two windows may meet
in another epoch, and no short last window has the same rows each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.batch_layout import share
from trainshed.data.sampler.permutation import LOCAL

if TYPE_CHECKING:
    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.permutation import Indices

# One step alone would shuffle nothing.
LEAST_STEPS = 2


@dataclass(frozen=True)
class ShuffleWindows:
    """The windows of one epoch.

    Args:
        steps: of the epoch; a smaller last step is not shuffled.
        span: steps of a window.
        seed: the run's seed.
        epoch: 0-based.
        shift: steps by which the first window is shorter, in [0, span).
    """

    steps: BatchLayout
    span: int
    seed: int
    epoch: int
    shift: int = 0

    def first(self, step: int) -> int:
        """Return the first step of a step's window."""
        is_full = step < self.steps.full
        return window_start(step, self.span, self.shift) if is_full else step

    def numbers(self, step: int) -> range:
        """Return the windows from that of a step to the last; a smaller last step is one."""
        full = -(-(self.steps.full + self.shift) // self.span) if self.steps.full else 0
        stop = full + bool(self.steps.last)
        return range((step + self.shift) // self.span if step < self.steps.full else full, stop)

    def full_steps(self, number: int) -> range:
        """Return the full steps of a window; none for that of a smaller last step."""
        begin = number * self.span - self.shift
        return range(max(0, begin), max(0, min(begin + self.span, self.steps.full)))

    def rows(self, number: int, rank: int) -> int:
        """Return this rank's rows in a window."""
        if full := self.full_steps(number):
            return self.steps.rows_in(rank, full.start, full.stop)
        return self.steps.rows_in(rank, self.steps.full, self.steps.count)

    def order(self, number: int, rank: int) -> Indices:
        """Return the order of this rank's rows in a window, shape (rows,).

        Args:
            number: of the window in the epoch.
            rank: of the rows.
        """
        full = self.full_steps(number)
        if not full:
            return np.arange(self.rows(number, rank), dtype=np.int64)
        drawn = np.random.default_rng([self.seed, LOCAL, self.epoch, number])
        keys = drawn.random((len(full), self.steps.size))
        # places has shape (steps, rows of this rank in a step): the step whose row comes there
        slots = self.steps.slots(self.steps.size, rank)
        places: Indices = np.argsort(keys[:, slots], axis=0, kind="stable")
        width = places.shape[1]
        inside = self.steps.by_slot(rank, np.arange(full.start, full.stop, dtype=np.int64))
        order: Indices = places * width + np.take_along_axis(inside, places, axis=0)
        return order.reshape(-1)


def span_of(buffer_size: int, step_rows: int) -> int:
    """Return the steps of a window: as many as fit in the buffer, if that is two or more."""
    return max(LEAST_STEPS, buffer_size // step_rows)


def same_place(  # noqa: PLR0913, PLR0917 - a step, and what windows depend on
    step: int, batch_size: int, shuffle_buffer_rows: int, shift: int, before: int, now: int
) -> int:
    """Return the step at which these ranks continue if every rank gets all rows.

    Steps and windows then depend on the number of ranks: no row is left out, and rows of at most
    one window or step repeat.

    Args:
        step: that the previous ranks had reached.
        batch_size: rows of a step of all ranks.
        shuffle_buffer_rows: of the buffer; 0 for none.
        shift: by which the windows of the epoch begin earlier, modulo their length.
        before: previous number of ranks.
        now: current number of ranks.
    """
    size_before, size_now = (share(batch_size, ranks, 0) for ranks in (before, now))
    if before == now:
        return step
    if not shuffle_buffer_rows:
        return step * size_before // size_now
    step = window_start(step, span_of(shuffle_buffer_rows, size_before), shift)
    there = step * size_before // size_now
    return window_start(there, span_of(shuffle_buffer_rows, size_now), shift)


def window_start(step: int, span: int, shift: int) -> int:
    """Return the first step of a step's window, of windows that begin `shift` steps earlier."""
    return max(0, step - (step + shift) % span)
