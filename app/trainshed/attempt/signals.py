"""Ctrl-C, SIGTERM and the controller ask the run to stop; a second signal ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed_api.names import EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

REASONS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
# Another attempt has taken over: whatever this one still did could only be in its way.
FENCED = "Superseded"


class StopRequestedError(BaseException):
    """Raised in the main thread when a stop is requested while the run is still being started.

    No Exception: who catches those must not take a stop for a failure.
    """


@dataclass(eq=False)
class Stop:
    """Whether and why the run was asked to stop."""

    reason: str | None = None
    grace_seconds: float | None = None  # None: what the spec says
    signalled: bool = False
    at_once: bool = False  # a second signal: no checkpoint is waited for
    _interrupts: bool = False
    asked_at: float | None = None  # by time.monotonic()
    asked: threading.Event = field(default_factory=threading.Event)

    def ask(self, number: int) -> None:
        """Take a signal in; the second one ends the run at once, the third one the process.

        Raises:
            StopRequestedError: inside `interrupting()`.
        """
        if self.at_once:
            os._exit(128 + number)
        self.at_once = self.signalled
        self.signalled = True
        if self.reason is None:
            self.asked_at = time.monotonic()  # first: other threads look at the reason
            self.reason = REASONS[signal.Signals(number)]
        self.asked.set()
        if self._interrupts:
            self._interrupts = False  # what handles the exception is not interrupted again
            raise StopRequestedError

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a stop end the block, in which nothing is trained that could be saved.

        Only the main thread is interrupted, by a signal; other requests take effect at the end.

        Raises:
            StopRequestedError: when a stop was requested before the end of the block.
        """
        self._interrupts = True
        try:
            if self.reason is None:
                yield
        finally:
            self._interrupts = False
        if self.reason:
            raise StopRequestedError

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ends because of the stop."""
        codes = {REASONS[signal.SIGINT]: EXIT_INTERRUPTED, FENCED: EXIT_TRY_AGAIN}
        return codes.get(self.reason or "", EXIT_TERMINATED)

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
