"""Between the controller and the API server: writes down each request, and spoils some of them."""

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import aiohttp
import yaml
from aiohttp import web

# What happens to one request: answered so and not passed on; the connection cut before it is passed
# on, or after; passed on and never answered; the controller killed before, or after.
Fault = Literal[
    "401", "403", "409", "410", "429", "500", "cut", "lost", "held", "killed before", "killed after"
]
Choose = Callable[[int], Fault | None]
_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}
_FORBIDDEN = 403
_LONGER_THAN_ANY_TEST_SECONDS = 3600


@dataclass(frozen=True)
class Request:
    """A request of the controller, and what the API server said to it."""

    method: str
    path: str
    status: int

    @property
    def is_write(self) -> bool:
        """Whether it decides on a run: an Event and the Lease do not."""
        passes = ("/events", "/leases")
        return self.method != "GET" and not any(kind in self.path for kind in passes)


@dataclass
class Interference:
    """A server that passes requests on as the identity of a kubeconfig.

    spoil_write: the fault of a write, given how many writes there were before it; None passes it
    on. spoil_read: the fault of the first GET of each path, lists and watches apart. outage: the
    fault of every request. kill: kills the controller.
    """

    kubeconfig: Path
    spoil_write: Choose = lambda _: None
    spoil_read: Fault | None = None
    outage: Fault | None = None
    kill: Callable[[], Awaitable[object]] | None = None
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    _is_hung_up: bool = False
    _writes: int = 0
    _spoilt: set[tuple[str, str]] = field(default_factory=set)
    _passing: set[asyncio.Task[web.StreamResponse]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        """Listen on a free port of loopback."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = str(cluster["server"])
        self._connector = aiohttp.TCPConnector(ssl=_context(cluster, user), limit=0)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._serve)
        # Not 0: to aiohttp that means to wait for every handler, and those of watches never end.
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let go of everything; TLS that closed in order would outlive the loop."""
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)
        await self._connector.close(abort_ssl=True)
        await self._runner.cleanup()
        await self._session.close()

    def write_kubeconfig(self, file: Path) -> Path:
        """Return a kubeconfig of this server."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "none"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(document))
        return file

    def start_counting(
        self, spoil_write: Choose = lambda _: None, spoil_read: Fault | None = None
    ) -> None:
        """Forget what was, and spoil from now on as is said."""
        self.requests.clear()
        self._writes = 0
        self._spoilt.clear()
        self.spoil_write, self.spoil_read = spoil_write, spoil_read

    def begin_outage(self, fault: Fault) -> None:
        """Spoil each request from now on, until the end of the outage; cut all connections."""
        self.outage = fault
        self._cut_all()

    def hang_up(self) -> None:
        """Cut the controller off: what it asks from now on is not passed on, nor answered."""
        self._is_hung_up = True
        self._cut_all()

    def _cut_all(self) -> None:
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport is not None:
                connection.transport.abort()

    def pick_up(self) -> None:
        """Serve the next controller."""
        self._is_hung_up = False

    def writes(self) -> list[Request]:
        """Return the writes so far."""
        return [request for request in self.requests if request.is_write]

    def refused(self) -> list[Request]:
        """Return what the controller had no right to."""
        return [request for request in self.requests if request.status == _FORBIDDEN]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        # Known by itself: a request whose controller is gone is nobody's any more.
        task = asyncio.create_task(self._pass(request))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        return await task

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if self._is_hung_up:
            return self._cut(request)
        fault = self._next_fault(request)
        if fault in ("401", "403", "409", "410", "429", "500"):
            return self._answer(request, int(fault))
        if fault == "killed before" and self.kill:
            await self.kill()
        if fault in ("cut", "killed before"):
            return self._cut(request)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        headers.pop("Authorization", None)
        async with self._session.request(
            request.method,
            f"{self._server}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            # Without a body the client would name a type that the API server refuses.
            skip_auto_headers={"Content-Type"},
        ) as answer:
            self.requests.append(Request(request.method, request.path, answer.status))
            if fault == "killed after" and self.kill:
                await self.kill()
            if fault in ("lost", "killed after"):
                return self._cut(request)
            if fault == "held":
                await asyncio.sleep(_LONGER_THAN_ANY_TEST_SECONDS)
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            if encoding := answer.headers.get("Content-Encoding"):
                kept["Content-Encoding"] = encoding
            response = web.StreamResponse(status=answer.status, headers=kept)
            with contextlib.suppress(ConnectionError):  # who asked is gone
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response

    def _next_fault(self, request: web.Request) -> Fault | None:
        if self.outage:
            return self.outage
        if request.method == "GET":
            read = request.path, request.query.get("watch", "")
            is_first = read not in self._spoilt
            self._spoilt.add(read)
            return self.spoil_read if is_first else None
        if not Request(request.method, request.path, 0).is_write:
            return None
        self._writes += 1
        return self.spoil_write(self._writes - 1)

    def _answer(self, request: web.Request, status: int) -> web.Response:
        if not self.outage:  # its 403 is no right that is missing
            self.requests.append(Request(request.method, request.path, status))
        body = {"kind": "Status", "code": status, "message": "spoilt by the test"}
        return web.json_response(body, status=status)

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=503)


def _context(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "crt", Path(folder) / "key"
        certificate.write_text(_text(user, "client-certificate"))
        key.write_text(_text(user, "client-key"))
        context.load_cert_chain(certificate, key)
    return context


def _text(part: dict[str, str], name: str) -> str:
    if f"{name}-data" in part:
        return base64.b64decode(part[f"{name}-data"]).decode()
    return Path(part[name]).read_text()
