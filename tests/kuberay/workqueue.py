"""A queue of keys: each is worked on by one worker at a time, and never stands in it twice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tests.kuberay.mirror import Key

_LOG = logging.getLogger(__name__)
# What controller-runtime does with a reconcile that fails.
_FIRST_BACKOFF_SECONDS = 0.005
_LONGEST_BACKOFF_SECONDS = 1000.0

Reconcile = Callable[[Key], Awaitable[float | None]]


class WorkQueue:
    """Keys to look at, now or later."""

    def __init__(self, reconcile: Reconcile) -> None:
        self._reconcile = reconcile
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Look at the key as soon as may be."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at the key later; the earliest of several times counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._wake, key)

    async def work(self) -> None:
        """Work on keys until cancelled."""
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self._look_at(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _wake(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _look_at(self, key: Key) -> None:
        try:
            seconds = await self._reconcile(key)
        except Exception as error:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            seconds = min(_FIRST_BACKOFF_SECONDS * 2**failures, _LONGEST_BACKOFF_SECONDS)
            _LOG.warning("%s/%s, again in %.3f s: %r", *key, seconds, error)
        else:
            self._failures.pop(key, None)
        if seconds is not None:
            self.add_after(key, seconds)
