"""How fast steps go now: means over the last few seconds."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_SECONDS = 5.0
# A pause longer than this (an evaluation, a checkpoint) is no pace of training.
PAUSE_SECONDS = 2.0
FEWEST_STEPS = 2


class Pace:
    """Keeps (seconds, rows) of recent steps."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, float, int]] = deque()
        self._last: float | None = None

    def step(self, rows: int) -> None:
        """Count a step that ended now."""
        now = self._clock()
        if (
            self._last is not None
            and now - self._last < PAUSE_SECONDS + self.seconds_per_step() * 5
        ):
            self._steps.append((now, now - self._last, rows))
        self._last = now
        while (
            self._steps
            and self._steps[0][0] < now - WINDOW_SECONDS
            and len(self._steps) > FEWEST_STEPS
        ):
            self._steps.popleft()

    def seconds_per_step(self) -> float:
        """Return the mean seconds of a step, 0.0 before the second one."""
        return sum(s for _, s, _ in self._steps) / len(self._steps) if self._steps else 0.0

    def rows_per_second(self) -> float | None:
        """Return the rows of all ranks a second."""
        seconds = sum(s for _, s, _ in self._steps)
        return sum(rows for _, _, rows in self._steps) / seconds if seconds else None
