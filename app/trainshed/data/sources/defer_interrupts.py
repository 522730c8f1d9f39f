"""Defers interrupts while users' code may import modules.

Ray 2.60 cancels a task with an interrupt like Ctrl-C, and reuses its process. No later task could
import torch 2.15 after an interrupted import: it can be initialized only once (torch/__init__.py).
Ray defers interrupts while it unpickles, but its DeferSigint stays active forever if code
restores the handler that it found.
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
    """Defers interrupts while something is done for the first time in this process.

    Without `begin` it does nothing, so that Ctrl-C in a terminal works at once.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._done: set[Hashable] = set()

    def begin(self) -> None:
        """Enable it, in a process that runs one task after the other."""
        self._has_begun = True

    def first(self, kind: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result of a call; the first one of each kind is not interrupted."""
        if not self._has_begun or kind in self._done:
            return make()
        with _held_back():
            made = make()
            self._done.add(kind)
        return made


UNBROKEN = DeferInterrupts()


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Deliver interrupts at the end of this block; one that arrives with an error follows it."""
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
        if signal.getsignal(signal.SIGINT) is hold:  # else users' code has set another
            signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])
