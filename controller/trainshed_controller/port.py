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


def may_connect(address: str, limits: Limits, connections: Counter[str]) -> bool:
    """Return whether an address may have one connection more.

    connections: how many each address has.
    """
    most, few, num_mine = most_connections(limits), limits.few_connections, connections[address]
    if connections.total() >= most or num_mine >= limits.address_connections:
        return False
    num_beyond = sum(max(0, count - few) for count in connections.values())
    # Addresses with many connections leave half of all to those with few.
    return num_mine < few or num_beyond < most // 2


class Port:
    """An application that listens within limits.

    Args:
        refused: called for each connection beyond the limits.
        parting_seconds: for answers that are on their way when it closes.
    """

    def __init__(
        self,
        application: web.Application,
        limits: Limits,
        refused: Callable[[], None] = lambda: None,
        parting_seconds: float = 1.0,
    ) -> None:
        self._limits = limits
        self._refused = refused
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
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _NewConnection(self._accept), host, port, backlog=_BACKLOG
        )
        return int(self._listening.sockets[0].getsockname()[1])

    @property
    def connections(self) -> Counter[str]:
        """Return how many connections each address has."""
        assert self._runner.server
        open_ones = self._runner.server.connections
        return Counter(_address(each.transport) for each in open_ones if each.transport)

    def _accept(self, transport: asyncio.Transport) -> None:
        """Hand a new connection to the application, or end it."""
        assert self._runner.server
        if not may_connect(_address(transport), self._limits, self.connections):
            self._refused()
            transport.abort()
            return
        protocol = self._runner.server()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    async def close(self) -> None:
        """Listen no more."""
        if self._listening:
            self._listening.close()
        await self._runner.cleanup()


class _NewConnection(asyncio.Protocol):
    """A connection that nobody has accepted yet."""

    def __init__(self, accept: Callable[[asyncio.Transport], None]) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._accept(transport)


def _address(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _quiet_log() -> logging.Logger:
    """Return a log in which what is no HTTP at all leaves no trace, as anybody can send it."""
    quiet = log.getChild("http")
    quiet.addFilter(_is_ours)
    return quiet


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
