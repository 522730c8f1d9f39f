"""A watch of one kind as a controller has it: late, out of step with the others, at times deaf."""

import asyncio
import random
from collections.abc import Callable

from tests.controller.api_server import ApiServer, Change
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.resync import Follow

# How late a watch usually is, and how late at times, in seconds.
_LATE, _VERY_LATE = 0.2, 30.0


class Feed:
    """Lists, then tells of changes; what is deleted while it is broken nobody is told.

    Args:
        plural: kind.
        concerns: which objects it tells of.
        handle: kopf's handler of the controller.
        is_stormy: whether watches break just now.
    """

    def __init__(
        self,
        server: ApiServer,
        plural: str,
        handle: Follow,
        chance: random.Random,
        is_stormy: Callable[[], bool],
    ) -> None:
        self._server = server
        self._plural = plural
        self._handle = handle
        self._chance = chance
        self._is_stormy = is_stormy
        self._told: asyncio.Queue[Change] = asyncio.Queue()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._told = asyncio.Queue()
            self._server.listeners.append(self._hear)
            try:
                await self._list()
                await self._follow()
            finally:
                self._server.listeners.remove(self._hear)
            await asyncio.sleep(self._chance.choice((0.5, 5.0, 60.0)))

    def _hear(self, change: Change) -> None:
        if change.plural == self._plural:
            self._told.put_nowait(change)

    async def _list(self) -> None:
        there = self._server.peek_all(self._plural)
        await self._dawdle()
        for raw in there:
            await self._handle({"type": None, "object": raw})

    async def _follow(self) -> None:
        """Tell of changes until the watch breaks."""
        while True:
            changes = [await self._told.get()]
            await self._dawdle()
            while not self._told.empty():
                changes.append(self._told.get_nowait())
            # kopf keeps the newest of what comes in quick succession for one object.
            newest = {_uid(change.raw): change for change in changes}
            if self._is_stormy() and self._chance.random() < 0.03:
                return
            for change in newest.values():
                await self._handle({"type": change.type, "object": change.raw})

    async def _dawdle(self) -> None:
        late = self._chance.random() * _LATE
        if self._is_stormy() and self._chance.random() < 0.02:
            late = self._chance.random() * _VERY_LATE
        await asyncio.sleep(late)


def _uid(raw: JsonObject) -> str:
    return str(as_object(raw["metadata"])["uid"])
