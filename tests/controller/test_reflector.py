"""What is known follows the API server, whatever becomes of lists and watches."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from tests.controller.api_server import Answer, ApiServer, Request, refusal
from tests.controller.builders_view import SETTINGS, make_worker, raw_pod
from tests.controller.test_controller import until
from trainshed_api.json_object import JsonObject
from trainshed_controller.cache import Cache
from trainshed_controller.connection import PODS, Kind
from trainshed_controller.errors import ExpiredError, RetryError
from trainshed_controller.handlers import make_handlers
from trainshed_controller.reflector import Reflector


@dataclass
class Source:
    """Lists and watches an API server; both fail with the errors that are given.

    cuts: how each watch ends, and after how many seconds, before one that holds. is_dead: whether
    watches that begin now report nothing.
    """

    server: ApiServer
    refusals: list[Answer] = field(default_factory=list)
    cuts: list[Exception | None] = field(default_factory=list)
    num_lists: int = 0
    is_dead: bool = False

    async def answer(self, request: Request) -> Answer:
        """Return what the API server says to a LIST."""
        return self.refusals.pop() if self.refusals else self.server.respond(request)

    async def list_page(
        self, kind: Kind, namespace: str, token: str
    ) -> tuple[list[JsonObject], JsonObject]:
        """Return a page."""
        self.num_lists += 1
        return await self.server.connect(self.answer).list_page(kind, namespace, token)

    async def watch(self, kind: Kind, namespace: str, version: str) -> AsyncGenerator[JsonObject]:
        """Yield events."""
        if self.cuts:
            if error := self.cuts.pop():
                raise error
            return
        if self.is_dead:
            await asyncio.Event().wait()
        async for event in self.server.watch(kind, namespace, version):
            yield event


@contextlib.asynccontextmanager
async def following(source: Source) -> AsyncIterator[Cache]:
    """Return what is known of Pods while they are followed."""
    cache = Cache(SETTINGS)
    handler = make_handlers(cache, lambda _: None, lambda _: None, print)[PODS]
    task = asyncio.create_task(Reflector(source, PODS, "team", handler, lambda: 0.0).run())
    try:
        yield cache
    finally:
        assert not task.done()
        task.cancel()


def put_pod(server: ApiServer, index: int) -> str:
    """Create a Pod; return its name."""
    pod = make_worker(index=index)
    server.put("pods", raw_pod(pod))
    return pod.name


def known(cache: Cache) -> list[str]:
    return sorted(pod.name for pod in cache.pods.all())


async def test_what_is_created_changed_and_deleted_is_known() -> None:
    server = ApiServer()
    first = put_pod(server, 1)
    async with following(Source(server)) as cache:
        await until(lambda: known(cache) == [first])
        second = put_pod(server, 2)
        await until(lambda: known(cache) == [first, second])
        server.drop("pods", first)
        await until(lambda: known(cache) == [second])


async def test_what_a_dead_watch_did_not_report_is_known_after_another_list() -> None:
    server = ApiServer()
    first = put_pod(server, 1)
    cache = Cache(SETTINGS)
    handler = make_handlers(cache, lambda _: None, lambda _: None, print)[PODS]
    source = Source(server, is_dead=True)
    reflector = Reflector(source, PODS, "team", handler, lambda: 0.0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run())
        await until(lambda: known(cache) == [first])
        second = put_pod(server, 2)
        server.drop("pods", first)
        source.is_dead = False

        await reflector.list_again()

        assert known(cache) == [second]
        third = put_pod(server, 3)
        await until(lambda: known(cache) == [second, third])
        task.cancel()


REFUSALS = {
    "a server that fails": refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "etcdserver: no leader"),
    "a right that is missing": refusal(HTTPStatus.FORBIDDEN, "forbidden"),
    "a token that expired": refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized"),
    "too many requests": refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many"),
    "a kind that is not served yet": refusal(HTTPStatus.NOT_FOUND, "404 page not found"),
    "a cut answer": Answer(HTTPStatus.OK, b'{"items": ['),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_list_that_fails_is_tried_again(name: str) -> None:
    server = ApiServer()
    pod = put_pod(server, 1)

    async with following(Source(server, refusals=[REFUSALS[name]])) as cache:
        await until(lambda: known(cache) == [pod])


@dataclass
class PagedSource(Source):
    """Lists one Pod on each page; errors: of pages after the first one. begun: how many lists."""

    errors: list[Exception] = field(default_factory=list)
    begun: int = 0

    async def list_page(
        self, kind: Kind, namespace: str, token: str
    ) -> tuple[list[JsonObject], JsonObject]:
        self.begun += not token
        if token and self.errors:
            raise self.errors.pop()
        items, metadata = await super().list_page(kind, namespace, "")
        first = int(token or 0)
        more = {"continue": str(first + 1)} if first + 1 < len(items) else {}
        return items[first : first + 1], metadata | more


@pytest.mark.parametrize(("error", "num_lists"), [(RetryError("500"), 1), (ExpiredError("410"), 2)])
async def test_a_page_that_fails_is_asked_for_again_unless_its_list_expired(
    error: Exception, num_lists: int
) -> None:
    server = ApiServer()
    pods = [put_pod(server, index) for index in range(3)]
    source = PagedSource(server, errors=[error])

    async with following(source) as cache:
        await until(lambda: known(cache) == pods)

    assert source.begun == num_lists


async def test_many_pods_are_few_requests() -> None:
    server = ApiServer()
    await server.connect().list_page(PODS, "team")

    assert server.asked[0].query["limit"] == "100"


@pytest.mark.parametrize("error", [ExpiredError("410"), RetryError("500"), KeyError("bug"), None])
async def test_nothing_is_missed_between_two_watches(error: Exception | None) -> None:
    server = ApiServer()
    first = put_pod(server, 1)
    source = Source(server, cuts=[error])
    async with following(source) as cache:
        await until(lambda: known(cache) == [first])
        server.drop("pods", first)
        second = put_pod(server, 2)

        await until(lambda: known(cache) == [second])

    is_resumed = error is None or type(error) is RetryError
    assert source.num_lists == (1 if is_resumed else 2)


async def test_an_outage_of_hours_is_waited_for_in_pauses_that_grow_to_half_a_minute() -> None:
    reflector = Reflector(Source(ApiServer()), PODS, "team", None, lambda: 1.0)  # type: ignore[arg-type]  # not asked
    pauses = []
    for reflector._failures in range(1, 2_000):
        pauses.append(reflector._pause(RetryError("503")))

    assert pauses[:3] == [1.0, 2.0, 4.0]
    assert pauses[-1] == 30.0
    assert reflector._pause(RetryError("429", after=45.0)) == 45.0
