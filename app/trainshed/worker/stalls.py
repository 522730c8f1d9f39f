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


class Stalls:
    """Watches this process's steps.

    Args:
        deadline_seconds: without a step, after which an attempt counts as lost; 0 watches nothing.
    """

    def __init__(self, deadline_seconds: float) -> None:
        self._patience = deadline_seconds * SHARE
        self._armed = float("-inf")

    def step(self) -> None:
        """Say that a step was taken."""
        now = time.monotonic()
        if self._patience and now - self._armed > _SECONDS_BETWEEN:
            self._armed = now
            faulthandler.dump_traceback_later(self._patience, file=_STDERR)

    def close(self) -> None:
        """Watch no more."""
        faulthandler.cancel_dump_traceback_later()
