"""The current speed of steps: means over the last few seconds."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_SECONDS = 5.0
# A pause longer than this (an evaluation, a checkpoint) does not count.
PAUSE_SECONDS = 2.0
FEWEST_STEPS = 2


class ThroughputMeter:
    """Keeps (seconds, rows) of recent steps."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, float, int]] = deque()
        # Running sum: summing many small steps at each of them is too slow.
        self._seconds, self._rows = 0.0, 0
        self._last: float | None = None

    def step(self, rows: int) -> None:
        """Count a step that ended now."""
        now = self._clock()
        if (
            self._last is not None
            and now - self._last < PAUSE_SECONDS + self.seconds_per_step() * 5
        ):
            self._steps.append((now, now - self._last, rows))
            self._seconds += now - self._last
            self._rows += rows
        self._last = now
        while (
            self._steps
            and self._steps[0][0] < now - WINDOW_SECONDS
            and len(self._steps) > FEWEST_STEPS
        ):
            _, old_seconds, old_rows = self._steps.popleft()
            self._seconds -= old_seconds
            self._rows -= old_rows

    def seconds_per_step(self) -> float:
        """Return the mean seconds of a step, 0.0 before the second one."""
        return self._seconds / len(self._steps) if self._steps else 0.0

    def seconds_left(self, steps: int) -> float | None:
        """Return the seconds that this many steps take; None before the speed is known."""
        return max(0, steps) * self.seconds_per_step() if self._steps else None

    def rows_per_second(self) -> float | None:
        """Return the rows of all ranks per second."""
        return self._rows / self._seconds if self._seconds > 0 else None
