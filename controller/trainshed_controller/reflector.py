"""Keeps the cache equal to the API server: each kind is listed, watched, and listed again.

A LIST replaces what is known of its kind, so deletions that no watch reported are noticed, and
objects that were restored from a backup are taken over. No error of the API server ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object
from trainshed_controller.errors import ApiError, ExpiredError, RetryError, backoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import Protocol

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.connection import Kind
    from trainshed_controller.handlers import AnyHandler

    class Source(Protocol):
        """What lists and watches: the API server, or a test."""

        async def list_page(
            self, kind: Kind, namespace: str, token: str
        ) -> tuple[list[JsonObject], JsonObject]:
            """Return objects, and the metadata of their list."""

        def watch(self, kind: Kind, namespace: str, version: str) -> AsyncGenerator[JsonObject]:
            """Yield the events after a version until the server ends the watch."""


log = logging.getLogger("trainshed.reflector")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0


@dataclass(eq=False)
class Reflector:
    """Lists and watches one kind.

    synced: set when everything is listed.

    Args:
        chance: a number from 0 to 1, which spreads the retries of many reflectors.
    """

    source: Source
    kind: Kind
    namespace: str
    handler: AnyHandler
    chance: Callable[[], float] = random.random
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _version: str = ""
    _failures: int = 0
    _following: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        while True:
            self._version = ""
            async with asyncio.TaskGroup() as group:
                self._following = group.create_task(self._follow())

    async def list_again(self) -> None:
        """Begin anew with a LIST, and wait for it: a watch may be dead without a sign of it."""
        self.synced.clear()
        if self._following:
            self._following.cancel()
        await self.synced.wait()

    async def _follow(self) -> None:
        while True:
            error = await self._try_once()
            self._failures += 1
            if error:
                log.warning("cannot watch %s: %s", self.kind[1], error)
            await asyncio.sleep(self._pause(error))

    async def _try_once(self) -> Exception | None:
        """List if necessary, and watch; return the error that ended the watch."""
        try:
            if not self._version:
                await self._list()
            watch = self.source.watch(self.kind, self.namespace, self._version)
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    self._take(event)
        except ExpiredError as error:
            self._version = ""
            return error
        except ApiError as error:
            return error
        except Exception as error:  # an error of ours: what is known may be wrong
            log.exception("watch of %s", self.kind[1])
            self._version = ""
            return error
        return None

    async def _list(self) -> None:
        uids: dict[str, str] = {}
        token = ""
        self.handler.shelf.begin_list()
        while True:
            items, metadata = await self._page(token)
            for item in items:
                named = as_object(item.get("metadata"))
                uids[str(named.get("name"))] = str(named.get("uid"))
                self.handler.take(item, is_listed=True)
            token = str(metadata.get("continue") or "")
            if not token:
                break
        self.handler.end_list(self.namespace, uids)
        self._version = str(metadata.get("resourceVersion", ""))
        self.synced.set()

    async def _page(self, token: str) -> tuple[list[JsonObject], JsonObject]:
        """Return a page; the pages before it are not read again because of an error that passes."""
        while True:
            try:
                page = await self.source.list_page(self.kind, self.namespace, token)
            except RetryError as error:
                if not token or isinstance(error, ExpiredError):
                    raise
                log.warning("cannot list %s: %s", self.kind[1], error)
                self._failures += 1
                await asyncio.sleep(self._pause(error))
            else:
                self._failures = 0 if token else self._failures
                return page

    def _take(self, event: JsonObject) -> None:
        """Take in an event. Raises ExpiredError where the watch cannot go on."""
        raw = as_object(event.get("object"))
        version = str(as_object(raw.get("metadata")).get("resourceVersion", ""))
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self.handler.take(raw)
            case "DELETED":
                self.handler.remove(raw)
            case "BOOKMARK":
                pass
            case _:
                raise ExpiredError(f"watch of {self.kind[1]}: {raw.get('message', event)}")
        self._version = version
        self._failures = 0

    def _pause(self, error: Exception | None) -> float:
        pause = backoff(self._failures, None, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        return backoff(0, error, pause * (0.5 + self.chance() / 2), pause)
