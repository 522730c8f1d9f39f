"""The time of a worker by bucket: at each moment exactly one bucket runs."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeVar

from trainshed.data.sampler.stage_time import WAIT, Spent, StageKey
from trainshed.data.sources.stage_timer import STAGE_TIMER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRAINING = "training"
WAITING = "waitingForData"
EVALUATING = "evaluating"
CHECKPOINTING = "checkpointing"
WORKER_BUCKETS = (TRAINING, WAITING, EVALUATING, CHECKPOINTING)

# Throughput is a mean over the last few seconds.
WINDOW_SECONDS = 5.0
# A pause longer than this (an evaluation, a checkpoint) does not count.
PAUSE_SECONDS = 2.0
FEWEST_STEPS = 2


class Counted(Protocol):
    """An object with rows, such as a batch."""

    @property
    def rows(self) -> int:
        """Return how many count."""
        ...


Item = TypeVar("Item", bound=Counted)


class PhaseTimer:
    """Adds up seconds by bucket; starts in `training`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(WORKER_BUCKETS, 0.0)
        self._bucket = TRAINING
        self._since = clock()

    @contextlib.contextmanager
    def inside(self, bucket: str) -> Iterator[None]:
        """Count the time inside the block to `bucket`, then return to the previous bucket."""
        before = self._switch(bucket)
        try:
            yield
        finally:
            self._switch(before)

    def waiting_for(self, items: Iterator[Item], dataset: str) -> Iterator[Item]:
        """Yield the items; the wait for each counts as `waitingForData`.

        The StageTimer gets the waits of all but the first one, and the rows of all.

        Args:
            items: of one pass.
            dataset: that they are of.
        """
        key, is_first = StageKey(dataset, WAIT), True
        while True:
            before = self._seconds[WAITING]
            with self.inside(WAITING):
                try:
                    item = next(items)
                except StopIteration:
                    return
            waited = 0.0 if is_first else self._seconds[WAITING] - before
            STAGE_TIMER.add({key: Spent(waited, item.rows)})
            is_first = False
            yield item

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each bucket up to now."""
        self._switch(self._bucket)
        return dict(self._seconds)

    def _switch(self, bucket: str) -> str:
        now = self._clock()
        self._seconds[self._bucket] += now - self._since
        self._since = now
        before, self._bucket = self._bucket, bucket
        return before


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
