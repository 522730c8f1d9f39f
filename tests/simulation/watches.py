"""Watches of one kind as a controller has them: late, out of step with the others, and cut."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable

from tests.controller.api_server import ApiServer
from trainshed_api.json_object import JsonObject
from trainshed_controller.cluster import Cluster
from trainshed_controller.connection import Kind
from trainshed_controller.errors import ExpiredError, RetryError

# How late an event usually is, and how late at times, in seconds.
_LATE, _VERY_LATE = 0.2, 30.0


class Watches:
    """What a reflector lists and watches with.

    Args:
        cluster: lists; requests may fail.
        is_stormy: whether watches break just now.
    """

    def __init__(
        self,
        server: ApiServer,
        cluster: Cluster,
        chance: random.Random,
        is_stormy: Callable[[], bool],
    ) -> None:
        self._server = server
        self._cluster = cluster
        self._chance = chance
        self._is_stormy = is_stormy

    async def list_page(
        self, kind: Kind, namespace: str, token: str
    ) -> tuple[list[JsonObject], JsonObject]:
        """Return a page of the API server."""
        return await self._cluster.list_page(kind, namespace, token)

    async def watch(self, kind: Kind, namespace: str, version: str) -> AsyncGenerator[JsonObject]:
        """Yield events until the watch breaks."""
        async with contextlib.aclosing(self._server.watch(kind, namespace, version)) as events:
            async for event in events:
                if self._chance.random() < 0.5:  # others come together with the one before
                    await self._dawdle()
                if self._is_stormy() and self._chance.random() < 0.03:
                    raise self._chance.choice((ExpiredError, RetryError))("cut")
                yield event

    async def _dawdle(self) -> None:
        late = self._chance.random() * _LATE
        if self._is_stormy() and self._chance.random() < 0.02:
            late = self._chance.random() * _VERY_LATE
        await asyncio.sleep(late)
