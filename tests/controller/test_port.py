"""The port: whoever sends half a request, or too many, is cut off, and keeps nobody else out."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from trainshed_controller.port import HEALTH_LIMITS, Door, Limits, Port, most_connections

HOST = "127.0.0.1"
BRIEF = Limits(header_seconds=0.3, body_seconds=0.3)
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def listening(limits: Limits) -> AsyncIterator[tuple[int, Door, list[None]]]:
    """A port whose one route reads what is posted; its door, and who was not let in."""

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
    door = Door(limits, lambda: refused.append(None))
    port = Port(application, limits, door)
    number = await port.open(HOST, 0)
    try:
        yield number, door, refused
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
    async with listening(BRIEF) as (port, door, _):
        lines = [await call(port, HALVES[case]) for _ in range(200)]
        # While they last, others are served.
        whole = await heard(await call(port, request(b"hello", "Connection: close")))
        await asyncio.gather(*[heard(line) for line in lines])

        assert whole.endswith(b"hello")
        async with asyncio.timeout(30):
            while door.num_inside:
                await asyncio.sleep(0.01)


async def test_bytes_that_drip_in_win_no_time() -> None:
    async with listening(BRIEF) as (port, door, _), asyncio.timeout(30):
        _, writer = await call(port, b"POST /take HTTP/1.1\r\n")
        while not door.num_inside:
            await asyncio.sleep(0.001)
        while door.num_inside:
            with contextlib.suppress(ConnectionError):
                writer.write(b"X")
                await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()


async def test_a_connection_may_serve_for_many_requests() -> None:
    async with listening(Limits()) as (port, _, _):
        reader, writer = await call(port, request(b"one"))
        first = await reader.readuntil(b"one")
        writer.write(request(b"two", "Connection: close"))

        assert first.startswith(b"HTTP/1.1 200")
        assert (await heard((reader, writer))).endswith(b"two")


async def test_one_address_takes_no_more_than_its_share() -> None:
    async with listening(Limits(address_connections=5)) as (port, door, refused):
        lines = [await call(port, b"") for _ in range(5)]
        sixth = await heard(await call(port, b""))
        assert (sixth, door.num_inside, len(refused)) == (b"", 5, 1)

        lines[0][1].close()
        async with asyncio.timeout(30):
            while door.num_inside == 5:
                await asyncio.sleep(0.01)
        assert (await heard(await call(port, request(b"a", "Connection: close")))).endswith(b"a")
        for _, writer in lines:
            writer.close()


def test_all_addresses_together_have_a_bound_too() -> None:
    door = Door(Limits(address_connections=3, connections=4))

    let_in = [door.enter(address) for address in ("a", "a", "a", "a", "b", "c", "c")]
    door.leave("a")

    assert let_in == [True, True, True, False, True, False, False]
    assert (door.enter("c"), door.num_inside) == (True, 4)


def test_500_drivers_of_one_head_are_let_in_and_leave_room_for_others() -> None:
    assert Limits().address_connections >= 500
    assert Limits().connections - Limits().address_connections >= 300


def test_addresses_that_have_many_keep_none_out_that_has_few() -> None:
    door = Door(Limits(address_connections=60, connections=100, few_connections=5))
    greedy = [door.enter(address) for address in ("a", "b", "c") for _ in range(100)]
    assert sum(greedy) == 50 + 3 * 5

    few = [door.enter(f"driver-{number}") for number in range(7) for _ in range(5)]

    assert all(few)
    assert (door.num_inside, door.enter("late")) == (100, False)


def test_places_of_those_who_leave_are_free_for_those_who_have_many() -> None:
    door = Door(Limits(address_connections=60, connections=100, few_connections=5))
    for _ in range(3):
        taken = sum(door.enter("a") for _ in range(100))
        refused = door.enter("a")
        for _ in range(taken):
            door.leave("a")

        assert (taken, refused, door.num_inside) == (55, False, 0)


def test_half_of_the_default_places_stay_when_two_addresses_take_all_they_can() -> None:
    door = Door(Limits())

    taken = sum(door.enter(address) for address in ("a", "b") for _ in range(1000))

    assert taken <= most_connections(Limits()) // 2 + 2 * Limits().few_connections


def test_the_door_for_probes_and_metrics_is_small() -> None:
    door = Door(HEALTH_LIMITS)

    taken = [sum(door.enter(f"pod-{number}") for _ in range(1000)) for number in range(10)]

    assert (max(taken), door.enter("kubelet")) == (20, True)
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
        async with listening(Limits()) as (port, _, _):
            answer = await heard(await call(port, LONG[case]))

    assert answer == b"" or answer.startswith(b"HTTP/1.0 400") or b" 400 " in answer[:20]
    assert caplog.records == []
