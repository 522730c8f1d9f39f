"""Ends a driver after a stop, when its storage does not answer.

Result, report and log wait for a storage that does not answer, each for minutes. Who has not ended
a little after the grace period is killed, and then nobody was told how it ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from trainshed.attempt.signals import FENCED
from trainshed.attempt.snapshot_publisher import SECONDS_FOR_A_POST
from trainshed.storage.run_folder import REPORT, RESULT
from trainshed_api.names import SECONDS_AFTER_GRACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.attempt.monitor import AttemptMonitor
    from trainshed.attempt.result import AttemptResult
    from trainshed.attempt.signals import Stop
    from trainshed.attempt.snapshot_publisher import SnapshotPublisher

# Of the seconds between the end of the grace period and the kill; telling may take the others.
SECONDS_TO_WRITE = SECONDS_AFTER_GRACE / 3
SECONDS_TO_TELL = SECONDS_AFTER_GRACE - SECONDS_TO_WRITE - SECONDS_FOR_A_POST
SECONDS_BETWEEN_LOOKS = 0.25


@dataclass(eq=False)
class ShutdownDeadline(AbstractContextManager["ShutdownDeadline"]):
    """The time that a driver has for its last records; without a stop as much as it takes.

    Args:
        publisher: what tells the controller; without one nobody waits to be told.
        stop: whether and when the run was asked to end, which may be while the records are written.
    """

    publisher: SnapshotPublisher | None
    stop: Stop
    _over: threading.Event = field(default_factory=threading.Event)
    # One of the two ends the process, and tells how: the block, or who counts down.
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, driver: AttemptMonitor, verdict: AttemptResult, code: int, result: str) -> None:
        """Count down to the end of the process.

        Args:
            driver: which knows its grace period, and what it has written.
            verdict: how the attempt ended.
            code: of the process where the block does not end.
            result: where that is, or would be.
        """
        publisher = self.publisher
        if publisher is None:
            return

        def leave() -> None:
            self._say_what_is_missing(driver)
            publisher.end(verdict, code, result if RESULT in driver.written else None)
            print(publisher.deliver(SECONDS_TO_TELL), file=sys.__stdout__, flush=True)
            os._exit(code)

        counting = threading.Thread(
            target=self._count, args=(driver, leave), name="overtime", daemon=True
        )
        counting.start()

    @override
    def __exit__(self, *_: object) -> None:
        """Be in time, or wait for the end of the process, which is being told."""
        with self._turn:
            self._over.set()

    def _count(self, driver: AttemptMonitor, leave: Callable[[], None]) -> None:
        began = time.monotonic()
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            end = driver.ends_at
            if end is not None and time.monotonic() > max(end, began) + SECONDS_TO_WRITE:
                with self._turn:
                    if not self._over.is_set():
                        leave()

    def _say_what_is_missing(self, driver: AttemptMonitor) -> None:
        missing = [name for name in (RESULT, REPORT) if name not in driver.written]
        if missing and self.stop.reason != FENCED:
            said = f"the storage does not answer in time: no {' and no '.join(missing)}"
            print(said, file=sys.__stderr__, flush=True)
