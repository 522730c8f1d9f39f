"""Says where a worker stands when its steps do not go on: the stacks of all its threads.

faulthandler's own thread does it, which needs no lock of Python's: so also one that hangs inside a
collective or a driver tells. Nobody can look at it from outside, as Pods that are restricted trace
nobody.
"""

from __future__ import annotations

import faulthandler
import time

# The stacks are on their way before the run is started again for its stall.
SHARE = 0.8
_SECONDS_BETWEEN = 1.0
_STDERR = 2


class Watchdog:
    """Watches this process's steps.

    Args:
        first_seconds: that the first step may take; 0 does not watch it.
        deadline_seconds: without a further step, after which an attempt counts as lost; 0 watches
            nothing.
    """

    def __init__(self, first_seconds: float, deadline_seconds: float) -> None:
        self._first_patience = first_seconds * SHARE
        self._patience = deadline_seconds * SHARE
        self._armed = float("-inf")

    def begin(self) -> None:
        """Say that a step is asked for; the first one is watched from here."""
        if self._armed == float("-inf"):
            self._watch(self._first_patience)

    def step(self) -> None:
        """Say that a step was taken."""
        now = time.monotonic()
        if now - self._armed > _SECONDS_BETWEEN:
            self._armed = now
            self._watch(self._patience)

    def close(self) -> None:
        """Watch no more."""
        faulthandler.cancel_dump_traceback_later()

    def _watch(self, patience: float) -> None:
        if patience:
            faulthandler.dump_traceback_later(patience, file=_STDERR)
        else:
            self.close()
