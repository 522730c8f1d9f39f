"""The port: whoever sends half a request, or too many, is cut off, and keeps nobody else out."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from trainshed_controller.port import (
    HEALTH_LIMITS,
    Limits,
    Port,
    may_connect,
    most_connections,
)

HOST = "127.0.0.1"
BRIEF = Limits(header_seconds=0.3, body_seconds=0.3)
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def listening(limits: Limits) -> AsyncIterator[tuple[int, Port, list[None]]]:
    """A port whose one route reads what is posted: its number, and refused connections."""

    async def take(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(limits.body_seconds):
                text = await request.text()
        except TimeoutError:
            return web.Response(status=408)
        return web.Response(text=text)

    application = web.Application()
    application.router.add_post("/take", take)
    refused: list[None] = []
    port = Port(application, limits, lambda: refused.append(None))
    number = await port.open(HOST, 0)
    try:
        yield number, port, refused
    finally:
        await port.close()


async def call(port: int, sent: bytes) -> Line:
    """Connect and send."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def heard(line: Line) -> bytes:
    """Return all that comes until the other side ends the connection."""
    reader, writer = line
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def request(body: bytes, *headers: str) -> bytes:
    """Return a whole request."""
    lines = ["POST /take HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join((*lines, "", "")).encode() + body


HALVES = {
    "nothing": b"",
    "half a line": b"POST /ta",
    "half the headers": request(b"")[:-10],
    "half the body": request(b"x" * 100)[:-50],
    "half a body in chunks": request(b"", "Transfer-Encoding: chunked").replace(
        b"Content-Length: 0\r\n", b""
    )
    + b"5\r\nab",
}


@pytest.mark.parametrize("case", HALVES)
async def test_of_200_half_sent_requests_none_stays(case: str) -> None:
    async with listening(BRIEF) as (number, port, _):
        lines = [await call(number, HALVES[case]) for _ in range(200)]
        # While they last, others are served.
        whole = await heard(await call(number, request(b"hello", "Connection: close")))
        await asyncio.gather(*[heard(line) for line in lines])

        assert whole.endswith(b"hello")
        async with asyncio.timeout(30):
            while port.connections.total():
                await asyncio.sleep(0.01)


async def test_bytes_that_drip_in_win_no_time() -> None:
    async with listening(BRIEF) as (number, port, _), asyncio.timeout(30):
        _, writer = await call(number, b"POST /take HTTP/1.1\r\n")
        while not port.connections.total():
            await asyncio.sleep(0.001)
        while port.connections.total():
            with contextlib.suppress(ConnectionError):
                writer.write(b"X")
                await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()


async def test_a_connection_may_serve_for_many_requests() -> None:
    async with listening(Limits()) as (number, _, _):
        reader, writer = await call(number, request(b"one"))
        first = await reader.readuntil(b"one")
        writer.write(request(b"two", "Connection: close"))

        assert first.startswith(b"HTTP/1.1 200")
        assert (await heard((reader, writer))).endswith(b"two")


async def test_one_address_takes_no_more_than_its_share() -> None:
    async with listening(Limits(address_connections=5)) as (number, port, refused):
        lines = [await call(number, b"") for _ in range(5)]
        sixth = await heard(await call(number, b""))
        assert (sixth, port.connections.total(), len(refused)) == (b"", 5, 1)

        lines[0][1].close()
        async with asyncio.timeout(30):
            while port.connections.total() == 5:
                await asyncio.sleep(0.01)
        assert (await heard(await call(number, request(b"a", "Connection: close")))).endswith(b"a")
        for _, writer in lines:
            writer.close()


def accept(limits: Limits, connections: Counter[str], *addresses: str) -> list[bool]:
    """Return which of these connections are accepted, and add those to the others."""
    accepted = []
    for address in addresses:
        accepted.append(may_connect(address, limits, connections))
        connections[address] += accepted[-1]
    return accepted


def test_all_addresses_together_have_a_bound_too() -> None:
    limits, connections = Limits(address_connections=3, connections=4), Counter[str]()

    accepted = accept(limits, connections, "a", "a", "a", "a", "b", "c", "c")
    connections["a"] -= 1

    assert accepted == [True, True, True, False, True, False, False]
    assert may_connect("c", limits, connections)


def test_500_drivers_of_one_head_are_let_in_and_leave_room_for_others() -> None:
    assert Limits().address_connections >= 500
    assert Limits().connections - Limits().address_connections >= 300


def test_addresses_that_have_many_keep_none_out_that_has_few() -> None:
    limits = Limits(address_connections=60, connections=100, few_connections=5)
    connections = Counter[str]()
    greedy = accept(limits, connections, *(100 * ["a"] + 100 * ["b"] + 100 * ["c"]))
    assert sum(greedy) == 50 + 3 * 5

    few = accept(limits, connections, *(f"driver-{number // 5}" for number in range(35)))

    assert all(few)
    assert not may_connect("late", limits, connections)


def test_half_of_the_default_places_stay_when_two_addresses_take_all_they_can() -> None:
    accepted = accept(Limits(), Counter(), *(1000 * ["a"] + 1000 * ["b"]))

    assert sum(accepted) <= most_connections(Limits()) // 2 + 2 * Limits().few_connections


def test_the_port_for_probes_and_metrics_takes_few_connections() -> None:
    connections = Counter[str]()
    for number in range(10):
        accept(HEALTH_LIMITS, connections, *(1000 * [f"pod-{number}"]))

    assert max(connections.values()) == 20
    assert may_connect("kubelet", HEALTH_LIMITS, connections)
    assert HEALTH_LIMITS.connections == 200


def test_what_may_be_open_depends_on_the_files_that_may() -> None:
    assert most_connections(Limits(connections=10**9)) <= 10**9
    assert most_connections(Limits(connections=1)) == 1


LONG = {
    "a line": b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "a header": request(b"", "X: " + "a" * 100_000),
    "headers": request(b"", *[f"X-{number}: a" for number in range(1000)]),
    "no HTTP": b"\x16\x03\x01" * 1000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("case", LONG)
async def test_what_is_too_long_is_refused_and_leaves_no_trace_in_the_log(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with listening(Limits()) as (number, _, _):
            answer = await heard(await call(number, LONG[case]))

    assert answer == b"" or answer.startswith(b"HTTP/1.0 400") or b" 400 " in answer[:20]
    assert caplog.records == []
