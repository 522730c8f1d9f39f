"""Ctrl-C, SIGTERM and the controller ask the run to stop; a second signal stops at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

REASONS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
# Another attempt has taken over: whatever this one still did could only be in its way.
FENCED = "Superseded"


class Stop:
    """Whether and why the run was asked to stop."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.grace_seconds: float | None = None  # None: what the spec says
        self.signalled = False
        self.asked_at: float | None = None  # by time.monotonic()
        self.asked = threading.Event()

    def ask(self, number: int) -> None:
        """Take a signal in; the second one ends the process."""
        if self.signalled:
            os._exit(128 + number)
        self.signalled = True
        if self.reason is None:
            self.asked_at = time.monotonic()  # first: other threads look at the reason
            self.reason = REASONS[signal.Signals(number)]
        self.asked.set()

    def order(self, reason: str, grace_seconds: float) -> None:
        """Take in what the controller wants; said again it changes nothing, but FENCED does."""
        if self.reason is None or (reason == FENCED and self.reason != FENCED):
            self.grace_seconds = grace_seconds
            self.asked_at = time.monotonic()
            self.reason = reason
            self.asked.set()

    def ends_at(self, grace_seconds: float) -> float | None:
        """Return when the grace period is over, by time.monotonic(); None where none has begun.

        grace_seconds: what the spec says, for where the controller says nothing else.
        """
        if self.asked_at is None:
            return None
        ordered = self.grace_seconds
        return self.asked_at + (grace_seconds if ordered is None else ordered)


@contextlib.contextmanager
def on_stop(stop: Stop) -> Iterator[None]:
    """Send both signals to `stop` inside the block; only in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - Python's signature
        stop.ask(number)

    before = {number: signal.signal(number, handle) for number in REASONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
