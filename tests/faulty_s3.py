"""A proxy in front of an S3 server that misbehaves by rule, and notes what it was asked.

It listens in a thread of its own. Each answer ends its connection, as the server's do, so a client
that is refused holds none that still works.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, hdrs, web
from multidict import CIMultiDict
from yarl import URL

from hack.cluster.ports import LOOPBACK, pick_ports
from tests.s3 import S3Server
from tests.s3_faults import Book, Late, Refusal, Rule

# Of one connection, not of what goes through it.
_OF_THE_CONNECTION = (hdrs.CONNECTION, hdrs.EXPECT, hdrs.KEEP_ALIVE, hdrs.TRANSFER_ENCODING)
# What aiohttp would add: a header that the client did not sign is none of ours to send.
_NOT_ADDED = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)
# RetryPolicy for a machine that is busy with other things.
_WAIT_SECONDS = 60


class FaultyS3:
    """The proxy; without a rule it passes on what it gets."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        [self._port] = pick_ports(1)
        self._guard = threading.Condition()
        self._book = Book()
        self._num_held = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty S3")
        self._thread.start()
        self._run(self._open())

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a client asks the server through this proxy."""
        return {**self._server.environment, "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self._port}"}

    def count(self, method: str = "*", key: str = "*") -> int:
        """Return how many requests came that fit the patterns, whatever became of them."""
        return self._book.count(method, key)

    @property
    def num_struck(self) -> int:
        """Return how many requests met with a fault."""
        return self._book.num_struck

    def add(self, rule: Rule) -> None:
        """Have a rule hold from the next request on; of several that strike, the first counts."""
        self._book.add(rule)

    def heal(self) -> None:
        """Forget every rule, and let go what is held."""
        self._book.clear()
        self.release()

    def wait_until_held(self, count: int = 1) -> None:
        """Wait until so many requests, or answers, are held."""
        with self._guard:
            is_so = self._guard.wait_for(lambda: self._num_held >= count, _WAIT_SECONDS)
        assert is_so, f"{self._num_held} are held, not {count}"

    def release(self) -> None:
        """Let go what is held; return when the server has answered all of it."""
        self._loop.call_soon_threadsafe(self._let_go)
        with self._guard:
            is_so = self._guard.wait_for(lambda: self._num_held == 0, _WAIT_SECONDS)
        assert is_so, f"{self._num_held} are still held"

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections for a while."""
        self._run(self._stop_listening())
        try:
            yield
        finally:
            self._run(self._listen())

    def close(self) -> None:
        """End it, with all its connections."""
        self.heal()
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_SECONDS)

    # What follows runs in the proxy's thread.

    async def _open(self) -> None:
        self._let = asyncio.Event()
        self._client = ClientSession(
            auto_decompress=False,
            connector=TCPConnector(force_close=True, limit=0),
            skip_auto_headers=_NOT_ADDED,
            timeout=ClientTimeout(total=None),
        )
        self._web = web.Server(self._answer, auto_decompress=False)
        await self._listen()

    async def _listen(self) -> None:
        self._listener = await self._loop.create_server(self._web, LOOPBACK, self._port)

    async def _stop_listening(self) -> None:
        self._listener.close()

    async def _close(self) -> None:
        self._listener.close()
        await self._web.shutdown(_WAIT_SECONDS)
        await self._client.close()

    def _let_go(self) -> None:
        self._let.set()
        self._let = asyncio.Event()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        let = self._let  # of now: what is let go while this one is on its way lets it go, too
        _bucket, _, key = request.path.removeprefix("/").partition("/")
        fault = self._book.note(request.method, key)
        body = await _body_of(request)
        if isinstance(fault, Refusal):
            return _last(_refuse(fault))
        if fault == "request held":
            async with self._held(let):
                return _last(await self._pass_on(request, body))
        answer = await self._pass_on(request, body)
        if fault == "answer held":
            async with self._held(let):
                return _last(answer)
        if isinstance(fault, Late):
            await asyncio.sleep(fault.seconds)
        if fault == "answer lost":
            _hang_up(request)
        if fault == "answer cut":
            return await _half(request, answer)
        return _last(answer)

    async def _pass_on(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Return what the server says; where it is away, the connection ends."""
        url = URL(self._server.endpoint + request.raw_path, encoded=True)
        try:
            async with self._client.request(
                request.method,
                url,
                headers=_without_connection(request.headers),
                data=BytesIO(body) if body else None,
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
        except ClientError:
            _hang_up(request)
            return web.Response(status=502)
        # The answer to HEAD has the length of what it does not hold.
        return web.Response(
            status=answer.status,
            headers=_without_connection(answer.headers),
            body=content or None,
        )

    @asynccontextmanager
    async def _held(self, let: asyncio.Event) -> AsyncIterator[None]:
        self._add_held(1)
        try:
            await let.wait()
            yield
        finally:
            self._add_held(-1)

    def _add_held(self, change: int) -> None:
        with self._guard:
            self._num_held += change
            self._guard.notify_all()


async def _body_of(request: web.BaseRequest) -> bytes:
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # this was no part of the answer yet
    return await request.content.read()


def _without_connection(headers: Mapping[str, str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in _OF_THE_CONNECTION:
        kept.popall(name, None)
    return kept


def _refuse(refusal: Refusal) -> web.Response:
    said = f"<Error><Code>{refusal.code}</Code></Error>"
    return web.Response(status=refusal.status, text=said, content_type="application/xml")


def _last(answer: web.Response) -> web.Response:
    """Return an answer that ends its connection."""
    answer.force_close()
    return answer


async def _half(request: web.BaseRequest, answer: web.Response) -> web.StreamResponse:
    """Send half of an answer, and end its connection."""
    body = answer.body
    assert body is None or isinstance(body, bytes)
    half = web.StreamResponse(status=answer.status, headers=answer.headers)
    half.content_length = len(body or b"")
    await half.prepare(request)
    await half.write((body or b"")[: len(body or b"") // 2])
    _hang_up(request)
    return half


def _hang_up(request: web.BaseRequest) -> None:
    if request.transport is not None:  # else the client was faster
        request.transport.close()


@pytest.fixture
def faulty_s3(s3: S3Server) -> Iterator[FaultyS3]:
    """A proxy in front of the S3 server, without a rule yet."""
    proxy = FaultyS3(s3)
    yield proxy
    proxy.close()
