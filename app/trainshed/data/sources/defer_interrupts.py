"""Users' code that no interrupt breaks where it may import something.

Ray 2.60 interrupts a task that is given up as Ctrl-C does, and its process goes on to others. None
of these could import torch 2.15 where that had broken its import: it is to be initialized once
(torch/__init__.py). Ray holds interrupts back while it unpickles, but its means (DeferSigint) stays
for good where somebody puts back the handler that he found.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from types import FrameType

Made = TypeVar("Made")


class DeferInterrupts:
    """Holds interrupts back while something is done for the first time in this process.

    Where nobody has begun it does nothing: who presses Ctrl-C is to be heard at once.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._done: set[Hashable] = set()

    def begin(self) -> None:
        """Be in a process that runs one task after the other."""
        self._has_begun = True

    def first(self, kind: Hashable, make: Callable[[], Made]) -> Made:
        """Return what is made; of each kind the first is made before an interrupt is heard."""
        if not self._has_begun or kind in self._done:
            return make()
        with _held_back():
            made = make()
            self._done.add(kind)
        return made


UNBROKEN = DeferInterrupts()


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Hear interrupts at the end of this; one that comes with an error goes with it."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is hold:  # else users' code has one of its own
            signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])
