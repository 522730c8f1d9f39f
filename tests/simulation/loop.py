"""An event loop that never waits: when nothing is ready its clock goes on to the next timer."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

_STEP_SECONDS = 1e-5


class NobodyWakesError(RuntimeError):
    """All wait for each other, and no timer is set."""


class _Skipping(selectors.SelectSelector):
    """Takes the time that it is given to wait as passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return that nothing happened."""
        if timeout is None:
            raise NobodyWakesError("everybody waits, and no timer is set")
        # What is done takes some time as well: whoever waits for a hair's breadth comes to its end.
        self.now += max(_STEP_SECONDS, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Hours take as long as what is done in them."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._skipping.now


T = TypeVar("T")


def run_virtually(main: Coroutine[object, object, T]) -> T:
    """Return what comes out of it."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
