"""The time of a worker by bucket: at each moment exactly one bucket runs."""

from __future__ import annotations

import contextlib
import time
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
