"""Time of this process by dataset and stage of its rows; a thread is in at most one stage.

One timer per process, because deep functions that measure do not know the run. A thread reports
what it measured about once a second.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from trainshed.data.sampler.stage_time import STARVED, Spent, StageKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trainshed.data.sampler.stage_time import Spending

Item = TypeVar("Item")

# A call costs the receiver a third of a millisecond: too much for one per batch.
SECONDS_BETWEEN = 1.0


class StageTimer:
    """Adds up seconds and rows; time of a nested stage does not count for the outer one.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._spent: dict[StageKey, tuple[float, int]] = {}
        # The current stage of each thread, and since when.
        self._running: dict[int, tuple[StageKey, float]] = {}
        self._whole: set[int] = set()

    @contextlib.contextmanager
    def inside(self, key: StageKey, rows: int = 0) -> Iterator[None]:
        """Count this thread's time inside the block, and this many rows, to a stage."""
        before = self._switch(key)
        try:
            yield
        finally:
            self._switch(before, rows)

    @contextlib.contextmanager
    def whole(self, key: StageKey) -> Iterator[None]:
        """Count this thread's time inside the block to a stage, including nested stages."""
        thread = threading.get_ident()
        with self.inside(key):
            self._whole.add(thread)
            try:
                yield
            finally:
                self._whole.discard(thread)

    @contextlib.contextmanager
    def starving(self) -> Iterator[None]:
        """Count this thread's time inside the block as waiting, if it is in a stage."""
        if (key := self.stage()) is None:
            yield
            return
        with self.inside(StageKey(key.dataset, STARVED)):
            yield

    def each(
        self, key: StageKey, items: Iterable[Item], rows: Callable[[Item], int] = lambda _: 0
    ) -> Iterator[Item]:
        """Yield the items; the time to make each counts to a stage.

        rows: returns the rows of an item.
        """
        coming = iter(items)
        while True:
            before, count = self._switch(key), 0
            try:
                item = next(coming)
                count = rows(item)
            except StopIteration:
                return
            finally:
                self._switch(before, count)
            yield item
            del item  # frees it while the next one is made

    def add(self, spending: Spending) -> None:
        """Add time that was measured elsewhere."""
        with self._lock:
            for key, spent in spending.items():
                self._add(key, *spent)

    def stage(self) -> StageKey | None:
        """Return the stage of this thread."""
        running = self._running.get(threading.get_ident())
        return running[0] if running else None

    def take(self) -> dict[StageKey, Spent]:
        """Return the time since the last call, including stages in progress."""
        with self._lock:
            now = self._clock()
            for thread, (key, since) in self._running.items():
                self._add(key, now - since, 0)
                self._running[thread] = (key, now)
            taken, self._spent = self._spent, {}
        return {key: Spent(*spent) for key, spent in taken.items()}

    def _switch(self, key: StageKey | None, rows: int = 0) -> StageKey | None:
        """Set the stage of this thread; return the previous one and count its rows."""
        thread = threading.get_ident()
        if thread in self._whole:
            return None
        with self._lock:
            now = self._clock()
            before = None
            if running := self._running.pop(thread, None):
                before, since = running
                self._add(before, now - since, rows)
            if key is not None:
                self._running[thread] = (key, now)
        return before

    def _add(self, key: StageKey, seconds: float, rows: int) -> None:
        had = self._spent.get(key, (0.0, 0))
        self._spent[key] = (had[0] + seconds, had[1] + rows)


class StatsReporter:
    """A thread that reports, once there is a receiver.

    Args:
        stage_timer: of this process.
        seconds_between: two reports.
    """

    def __init__(self, stage_timer: StageTimer, seconds_between: float = SECONDS_BETWEEN) -> None:
        self._stage_timer = stage_timer
        self._seconds_between = seconds_between
        self._lock = threading.Lock()
        self._listen: Callable[[Spending], object] | None = None

    def tell(self, listen: Callable[[Spending], object]) -> None:
        """Set the receiver, replacing an earlier one.

        Args:
            listen: called with the time since the last call; must not wait.
        """
        with self._lock:
            is_begun, self._listen = self._listen is not None, listen
        if not is_begun:
            threading.Thread(target=self._run, name="teller", daemon=True).start()

    def tell_now(self) -> None:
        """Report the time until now."""
        with self._lock:
            if self._listen and (spent := self._stage_timer.take()):
                self._listen(spent)

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._seconds_between):
            self.tell_now()


STAGE_TIMER = StageTimer()
TELLER = StatsReporter(STAGE_TIMER)
