"""Ends a driver that was told to stop and that its storage keeps from ending by itself.

Result, report and log wait for a storage that does not answer, each for minutes. Who has not ended
a little after the grace period is killed, and then nobody was told how it ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from trainshed_api.names import SECONDS_AFTER_GRACE

if TYPE_CHECKING:
    from types import TracebackType

    from trainshed.driver.push import Pusher
    from trainshed.driver.signals import Stop
    from trainshed.driver.verdict import Verdict

# Of the seconds between the end of the grace period and the kill; telling may take the others.
SECONDS_TO_WRITE = SECONDS_AFTER_GRACE / 3


class Overtime:
    """The time that a driver has for its last records; without a stop as much as it takes.

    Args:
        pusher: what tells the controller; without one nobody waits to be told.
        stop: whether and when the run was asked to end.
    """

    def __init__(self, pusher: Pusher | None, stop: Stop) -> None:
        self._pusher = pusher
        self._stop = stop
        self._timer: threading.Timer | None = None

    def begin(self, verdict: Verdict, code: int, grace_seconds: float) -> None:
        """Count down to the end of the process, which ends with a code when the block does not."""
        if self._pusher and self._stop.asked_at is not None:
            left = self._stop.asked_at + grace_seconds + SECONDS_TO_WRITE - time.monotonic()
            self._timer = threading.Timer(max(left, SECONDS_TO_WRITE), self._leave, (verdict, code))
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Overtime:
        """Begin with what may take too long."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Be in time."""
        if self._timer:
            self._timer.cancel()

    def _leave(self, verdict: Verdict, code: int) -> None:
        assert self._pusher
        said = "the storage does not answer: this attempt leaves no result and no report"
        print(said, file=sys.__stderr__, flush=True)
        self._pusher.end(verdict, code, None)
        print(self._pusher.deliver(), file=sys.__stdout__, flush=True)
        os._exit(code)
