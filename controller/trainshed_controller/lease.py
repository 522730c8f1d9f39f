"""Which of several controllers acts: the one that holds a Lease of Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object
from trainshed_controller.clock import Clock
from trainshed_controller.connection import path_of
from trainshed_controller.errors import ApiError, GoneError
from trainshed_controller.event import moment_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.connection import Connection

log = logging.getLogger("trainshed.lease")

LEASES = "apis/coordination.k8s.io/v1", "leases"
# Others take the Lease when it was not renewed for so long. Its holder stops before that: what it
# sent last has the rest of the time to arrive.
_DURATION_SECONDS, _DEADLINE_SECONDS, _RETRY_SECONDS = 10, 6.0, 2.0
# After a renewal that failed while the term goes on: it ends before a usual pause does.
_SOON_SECONDS = 0.2
_LOOK_SECONDS = 0.1


@dataclass(eq=False)
class Lease:
    """A Lease that this process takes when nobody else renews it.

    Clocks of machines differ, so another holder's time is taken from when its last renewal was
    seen here; kubernetes.aio's leader election goes on acting after a connection error.

    holder: who holds it, as far as is known; empty once its holder gave it back.
    was_of_another: whether another process held it before this one took it. identity: who this
    process is; the next process in the same Pod takes the Lease over at once.
    """

    connection: Connection
    namespace: str
    name: str
    identity: str
    clock: Clock = field(default_factory=Clock)
    holder: str = ""
    was_of_another: bool = False
    _seen: tuple[str, float] = "", 0.0
    _held_until: float = float("-inf")

    def is_held(self) -> bool:
        """Say whether this process may act now."""
        return self.clock.monotonic() < self._held_until

    async def wait(self, *, until_held: bool) -> None:
        """Wait until the Lease is held, or no more."""
        while self.is_held() != until_held:
            await asyncio.sleep(_LOOK_SECONDS)

    @contextlib.asynccontextmanager
    async def renewing(self, may_begin: asyncio.Event) -> AsyncGenerator[None]:
        """Take and renew the Lease from the event on, while the body runs; then give it to others.

        An error of ours ends the body with that error.
        """
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run(may_begin), name="lease")
            yield
            task.cancel()

    async def _run(self, may_begin: asyncio.Event) -> None:
        await may_begin.wait()
        try:
            while True:
                is_urgent = not await self._try(self._renew()) and self.is_held()
                await asyncio.sleep(_SOON_SECONDS if is_urgent else _RETRY_SECONDS)
        finally:
            if self.is_held():
                self._held_until = float("-inf")
                await self._try(self._write(""))

    async def _try(self, act: Awaitable[None]) -> bool:
        """Return whether it succeeded."""
        try:
            async with asyncio.timeout(_RETRY_SECONDS):
                await act
        except (ApiError, TimeoutError) as error:
            log.warning("the Lease is not renewed: %s", str(error) or "no answer")
            return False
        return True

    async def _renew(self) -> None:
        began = self.clock.monotonic()
        found = await self._find()
        version = str(as_object(found.get("metadata")).get("resourceVersion", ""))
        spec = as_object(found.get("spec"))
        named = spec.get("holderIdentity")
        if named is not None:  # else the Lease was emptied or deleted: its last holder still acts
            self.holder = str(named)
        if version != self._seen[0]:
            self._seen = version, self.clock.monotonic()
        if self.holder not in ("", self.identity):
            self._held_until = float("-inf")
            if self.clock.monotonic() - self._seen[1] < _DURATION_SECONDS:
                return
        if not self.is_held():
            self.was_of_another = bool(spec or self.holder) and self.holder != self.identity
        await self._write(self.identity)
        self._held_until = began + _DEADLINE_SECONDS

    async def _find(self) -> JsonObject:
        """Return the Lease; empty where there is none."""
        try:
            return await self.connection.request("GET", path_of(LEASES, self.namespace, self.name))
        except GoneError:
            return {}

    async def _write(self, holder: str) -> None:
        """Write who holds the Lease, unless it changed since it was read; create a missing one."""
        now = moment_of(self.clock.now())
        version = self._seen[0]
        body: JsonObject = {
            "metadata": {"resourceVersion": version} if version else {"name": self.name},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": _DURATION_SECONDS,
                "renewTime": now,
                **({} if holder == self.holder else {"acquireTime": now}),
            },
        }
        if version:
            path = path_of(LEASES, self.namespace, self.name)
            written = await self.connection.request("PATCH", path, body=body)
        else:  # deleted by somebody, or left out by a tool that applies no Leases
            path = path_of(LEASES, self.namespace)
            written = await self.connection.request("POST", path, body=body)
        self.holder = holder
        version = str(as_object(written.get("metadata")).get("resourceVersion"))
        self._seen = version, self.clock.monotonic()
