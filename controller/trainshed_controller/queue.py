"""A queue of keys: each at most once in it, each worked on by one worker at a time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed_controller.errors import backoff, share_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trainshed_controller.model import Key

    Work = Callable[[Key], Awaitable[float | None]]
    OnTrouble = Callable[[Key, Exception, float], Awaitable[None]]

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 60.0
# Many runs change at once: their queue looks at all of them together.
_TOGETHER_SECONDS = 0.05


@dataclass(eq=False)
class WorkQueue:
    """Deduplicates, delays, and backs off; whoever adds a key that is worked on gets another turn.

    Args:
        clock: seconds that only grow; those of the loop's own timers.
    """

    clock: Callable[[], float] = time.monotonic
    waited: Callable[[float], None] = lambda _: None
    _ready: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)
    _queued: dict[Key, float] = field(default_factory=dict)
    _working: dict[Key, float] = field(default_factory=dict)
    _again: set[Key] = field(default_factory=set)
    _timers: dict[Key, asyncio.TimerHandle] = field(default_factory=dict)
    _failures: dict[Key, int] = field(default_factory=dict)

    def enqueue(self, key: Key) -> None:
        """Have the key worked on soon; that of a RayCluster after all runs that changed with it."""
        if key.kind == "cluster":
            self.add_after(key, _TOGETHER_SECONDS)
        else:
            self.add(key)

    def add(self, key: Key) -> None:
        """Have the key worked on now."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued[key] = self.clock()
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key worked on after a while; an earlier time that is set already stands."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer and timer.when() <= loop.time() + seconds:
            return
        if timer:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self, workers: int, work: Work, on_trouble: OnTrouble) -> None:
        """Work until cancelled.

        Args:
            work: what is done with a key; returns seconds after which to come again, None for
                never. A key whose work fails, however it does, is put back after a pause that
                doubles: no key may keep the others from being worked on.
            on_trouble: told of each failure, and of the pause that follows.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._serve(work, on_trouble))

    async def _serve(self, work: Work, on_trouble: OnTrouble) -> None:
        while True:
            key = await self._ready.get()
            self.waited(self.clock() - self._queued.pop(key))
            self._working[key] = self.clock()
            try:
                again_after = await self._turn(key, work, on_trouble)
            finally:
                del self._working[key]
            if again_after is not None:
                self.add_after(key, again_after)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    async def _turn(self, key: Key, work: Work, on_trouble: OnTrouble) -> float | None:
        try:
            again_after = await work(key)
        except Exception as error:  # whatever it is, the other keys have nothing to do with it
            pause = self._pause(key, error)
            await on_trouble(key, error, pause)
            return pause
        self._failures.pop(key, None)
        return again_after

    def _pause(self, key: Key, error: Exception) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause = backoff(count - 1, error, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        # What fails together is tried again one after the other.
        return pause * (1.0 + 0.25 * share_of(repr(key)))

    @property
    def depth(self) -> int:
        """Return how many keys wait for a worker."""
        return len(self._queued)

    def longest_turn_seconds(self) -> float:
        """Return how long the key has been worked on that has been so longest.

        How long keys wait is no sign of ill health: an API server that is away makes all wait.
        """
        now = self.clock()
        return max((now - since for since in self._working.values()), default=0.0)
