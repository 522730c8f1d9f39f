"""Prints the stacks of all threads of a worker whose steps do not continue.

faulthandler's own thread does it, without Python's locks, so it works for threads that hang inside
a collective or a driver. Nothing can inspect the process from outside, because restricted Pods do
not allow tracing.
"""

from __future__ import annotations

import faulthandler
import time

# The stacks are saved before the run is restarted for its stall.
SHARE = 0.8
_SECONDS_BETWEEN = 1.0
_STDERR = 2


class Watchdog:
    """Watches this process's steps.

    Args:
        first_seconds: maximum for the first step; 0 to not watch it.
        deadline_seconds: maximum without a step, after which an attempt counts as lost; 0 to
            watch nothing.
    """

    def __init__(self, first_seconds: float, deadline_seconds: float) -> None:
        self._first_timeout = first_seconds * SHARE
        self._timeout = deadline_seconds * SHARE
        self._armed = float("-inf")

    def begin(self) -> None:
        """Record that a step was requested; the first one is watched from here."""
        if self._armed == float("-inf"):
            self._watch(self._first_timeout)

    def step(self) -> None:
        """Record that a step was taken."""
        now = time.monotonic()
        if now - self._armed > _SECONDS_BETWEEN:
            self._armed = now
            self._watch(self._timeout)

    def close(self) -> None:
        """Watch no more."""
        faulthandler.cancel_dump_traceback_later()

    def _watch(self, timeout: float) -> None:
        if timeout:
            faulthandler.dump_traceback_later(timeout, file=_STDERR)
        else:
            self.close()
