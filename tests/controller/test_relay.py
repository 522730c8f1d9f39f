"""A standby passes on what drivers post, and answers itself where the holder does not."""

import math
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from trainshed_controller.lease import Lease
from trainshed_controller.relay import Relay

if TYPE_CHECKING:
    from trainshed_controller.connection import Connection


def held(holder: str = "", *, is_mine: bool = False) -> Lease:
    """Return a Lease that another replica holds at an address, or this one."""
    until = math.inf if is_mine else -math.inf
    nothing = cast("Connection", None)
    return Lease(nothing, "team", "lease", "me", holder=holder, _held_until=until)


async def post(
    lease: Lease, headers: dict[str, str] | None = None, path: str = "/progress"
) -> tuple[int, str]:
    """Return what a replica with this Lease answers to a driver's post."""
    async with aiohttp.ClientSession() as session:
        relay = Relay(session, lease)

        async def take(request: web.Request) -> web.Response:
            return await relay.send(request) or web.Response(text="answered here")

        application = web.Application()
        application.router.add_post(path, take)
        async with TestClient(TestServer(application)) as driver:
            given = {"Authorization": "Bearer token", **(headers or {})}
            async with driver.post(path, data=b"snapshot", headers=given) as answer:
                return answer.status, await answer.text()


@pytest.fixture
async def holder() -> AsyncIterator[TestServer]:
    """The replica that acts; it answers with what it was sent."""

    async def echo(request: web.Request) -> web.Response:
        text = f"{request.headers['Authorization']} {await request.text()}"
        return web.Response(status=410, text=text)

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=503)

    application = web.Application()
    application.router.add_post("/progress", echo)
    application.router.add_post("/starting", refuse)
    server = TestServer(application)
    await server.start_server()
    yield server
    await server.close()


async def test_a_post_to_a_standby_is_answered_by_the_holder(holder: TestServer) -> None:
    lease = held(holder=f"controller-1/{holder.host}:{holder.port}")

    assert await post(lease) == (410, "Bearer token snapshot")


async def test_the_holder_answers_itself(holder: TestServer) -> None:
    lease = held(holder=f"controller-1/{holder.host}:{holder.port}", is_mine=True)

    assert await post(lease) == (200, "answered here")


async def test_a_post_is_passed_on_once(holder: TestServer) -> None:
    lease = held(holder=f"controller-1/{holder.host}:{holder.port}")

    assert await post(lease, {"Trainshed-Relayed": "yes"}) == (200, "answered here")


async def test_a_standby_answers_where_the_holder_cannot_yet(holder: TestServer) -> None:
    lease = held(holder=f"controller-1/{holder.host}:{holder.port}")

    assert await post(lease, path="/starting") == (200, "answered here")


async def test_a_standby_answers_where_the_holder_is_gone_or_unknown() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"controller-1/127.0.0.1:{free.getsockname()[1]}"

    assert await post(held(holder=gone)) == (200, "answered here")
    assert await post(held()) == (200, "answered here")
