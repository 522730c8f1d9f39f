"""A shuffle with a buffer: rows move between steps within a rank's slots. Pure.

A window is as many steps as the buffers of all workers hold; a resumed run restarts at the first
row of its window.
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
    """

    steps: BatchLayout
    span: int
    seed: int
    epoch: int

    def first(self, step: int) -> int:
        """Return the first step of a step's window."""
        return step - step % self.span if step < self.steps.full else step

    def numbers(self, step: int) -> range:
        """Return the windows from that of a step to the last; a smaller last step is one."""
        full = -(-self.steps.full // self.span)
        stop = full + bool(self.steps.last)
        return range(step // self.span if step < self.steps.full else full, stop)

    def rows(self, number: int, rank: int) -> int:
        """Return this rank's rows in a window."""
        first = number * self.span
        if first >= self.steps.full:
            return self.steps.rows_in(rank, self.steps.full, self.steps.count)
        return self.steps.rows_in(rank, first, min(first + self.span, self.steps.full))

    def order(self, number: int, rank: int) -> Indices:
        """Return the order of this rank's rows in a window, shape (rows,).

        Args:
            number: of the window in the epoch.
            rank: of the rows.
        """
        first, full = number * self.span, self.steps.full
        if first >= full:
            return np.arange(self.rows(number, rank), dtype=np.int64)
        drawn = np.random.default_rng([self.seed, LOCAL, self.epoch, number])
        keys = drawn.random((min(self.span, full - first), self.steps.size))
        # places has shape (steps, rows of this rank in a step)
        places: Indices = np.argsort(keys[:, self.steps.slots(rank)], axis=0, kind="stable")
        width = places.shape[1]
        order: Indices = (places * width + np.arange(width)).reshape(-1)
        return order


def span_of(buffer_size: int, step_rows: int) -> int:
    """Return the steps of a window: as many as fit in the buffer, if that is two or more."""
    return max(LEAST_STEPS, buffer_size // step_rows)


def same_place(step: int, batch_size: int, shuffle_buffer_rows: int, before: int, now: int) -> int:
    """Return the step at which these ranks continue if every rank gets all rows.

    Steps and windows then depend on the number of ranks: no row is left out, and rows of at most
    one window or step repeat.

    Args:
        step: that the previous ranks had reached.
        batch_size: rows of a step of all ranks.
        shuffle_buffer_rows: of the buffer; 0 for none.
        before: previous number of ranks.
        now: current number of ranks.
    """
    size_before, size_now = (share(batch_size, ranks, 0) for ranks in (before, now))
    if before == now:
        return step
    if shuffle_buffer_rows:
        step -= step % span_of(shuffle_buffer_rows, size_before)
    there = step * size_before // size_now
    return there - there % span_of(shuffle_buffer_rows, size_now) if shuffle_buffer_rows else there
