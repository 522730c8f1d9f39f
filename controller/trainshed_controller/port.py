"""The port that anybody in the cluster may reach: what one connection, address or request may cost.

Nobody has to be trusted before a bearer was checked, so all of this holds without one.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("trainshed.port")

# Drivers send six short headers; what stands between may add some.
_MAX_LINE_BYTES, _MAX_HEADERS = 2048, 32
_READ_BYTES = 16 * 1024
_BACKLOG = 1024


@dataclass(frozen=True)
class Limits:
    """What is borne.

    Args:
        header_seconds: until a request's headers are there, and between two requests.
        body_seconds: until its body is there, too.
        address_connections: at once; the drivers of one head, or of a node behind NAT, share one.
        connections: at once, of all addresses; files that may be open set a bound of their own.
        few_connections: what an address has beyond so many fills half of all places at most.
    """

    header_seconds: float = 10.0
    body_seconds: float = 10.0
    address_connections: int = 600
    connections: int = 1000
    few_connections: int = 10


# Kubelet and Prometheus come with few connections each.
HEALTH_LIMITS = Limits(address_connections=20, connections=200, few_connections=4)


def most_connections(limits: Limits) -> int:
    """Return how many connections may be open: half the files, for others need some too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return min(limits.connections, files // 2)


class Door:
    """Lets connections in, as many as are borne.

    Args:
        refused: told of each that is not let in.
    """

    def __init__(self, limits: Limits, refused: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._most = most_connections(limits)
        self._refused = refused
        self._inside: Counter[str] = Counter()
        # Of all addresses, what each has beyond a few.
        self._num_beyond = 0

    @property
    def num_inside(self) -> int:
        """Return how many connections are open."""
        return self._inside.total()

    def enter(self, address: str) -> bool:
        """Let a connection in, or not."""
        if not self._has_place(address):
            self._refused()
            return False
        self._num_beyond += self._inside[address] >= self._limits.few_connections
        self._inside[address] += 1
        return True

    def leave(self, address: str) -> None:
        """See a connection out that was let in."""
        self._inside[address] -= 1
        self._num_beyond -= self._inside[address] >= self._limits.few_connections
        if not self._inside[address]:
            del self._inside[address]

    def _has_place(self, address: str) -> bool:
        num_mine = self._inside[address]
        if self.num_inside >= self._most or num_mine >= self._limits.address_connections:
            return False
        # Whoever has many leaves half of the places to those who have few.
        return num_mine < self._limits.few_connections or self._num_beyond < self._most // 2


class _Guest(asyncio.Protocol):
    """A connection at the door; once inside, all that happens to it is the server's affair."""

    def __init__(self, door: Door, server: asyncio.Protocol) -> None:
        self._door = door
        self._server = server
        self._address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._door.enter(address):
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
            return
        self._address = address
        self._server.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._address is not None:
            self._server.data_received(data)

    def eof_received(self) -> bool | None:
        return self._server.eof_received() if self._address is not None else None

    def pause_writing(self) -> None:
        self._server.pause_writing()

    def resume_writing(self) -> None:
        self._server.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is not None:
            self._door.leave(self._address)
            self._server.connection_lost(exc)


class Port:
    """An application that listens within limits.

    Args:
        parting_seconds: for answers that are on their way when it closes.
    """

    def __init__(
        self, application: web.Application, limits: Limits, door: Door, parting_seconds: float = 1.0
    ) -> None:
        self._door = door
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_quiet_log(),
            shutdown_timeout=parting_seconds,
            # aiohttp counts these from when a connection is made, too.
            keepalive_timeout=limits.header_seconds,
            lingering_time=min(1.0, limits.body_seconds),
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
            max_headers=_MAX_HEADERS,
            read_bufsize=_READ_BYTES,
            # A body that is compressed may grow without bounds; no driver's is.
            auto_decompress=False,
        )
        self._listening: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port, which a 0 leaves to the system."""
        await self._runner.setup()
        server = self._runner.server
        assert server
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Guest(self._door, server()), host, port, backlog=_BACKLOG
        )
        return int(self._listening.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no more."""
        if self._listening:
            self._listening.close()
        await self._runner.cleanup()


def _quiet_log() -> logging.Logger:
    """Return a log in which what is no HTTP at all leaves no trace, as anybody can send it."""
    quiet = log.getChild("http")
    quiet.addFilter(_is_ours)
    return quiet


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
