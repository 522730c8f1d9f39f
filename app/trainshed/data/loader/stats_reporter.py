"""Reports the time that this process spends on rows, about once a second. No Ray here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from trainshed.data.sources.stage_timer import STAGE_TIMER

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.sampler.stage_time import Spending
    from trainshed.data.sources.stage_timer import StageTimer

# A call costs the receiver a third of a millisecond: too much for one per batch.
SECONDS_BETWEEN = 1.0


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


TELLER = StatsReporter(STAGE_TIMER)
