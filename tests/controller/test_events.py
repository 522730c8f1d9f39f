"""Events are posted beside the work, which never waits for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.controller.api_server import ApiServer
from tests.controller.builders_view import make_view
from trainshed_api.json_object import as_object
from trainshed_controller.errors import RetryError
from trainshed_controller.event import event_of
from trainshed_controller.events import EventPoster
from trainshed_controller.model import Note, RunView


def make_note(number: int) -> Note:
    return Note("Normal", "Running", f"note {number}")


@contextlib.asynccontextmanager
async def posting(poster: EventPoster) -> AsyncIterator[None]:
    task = asyncio.create_task(poster.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_events_are_posted_in_the_order_of_what_they_tell() -> None:
    posted: list[Note] = []

    async def send(_: RunView, note: Note, _name: str, _count: int) -> None:
        await asyncio.sleep(0.01 if note == make_note(0) else 0)
        posted.append(note)

    poster = EventPoster(send)
    async with posting(poster):
        for number in range(3):
            poster.post(make_view(), make_note(number))
        await poster.drain(10)

    assert posted == [make_note(number) for number in range(3)]


async def test_one_that_cannot_be_posted_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    posted: list[Note] = []

    async def send(_: RunView, note: Note, _name: str, _count: int) -> None:
        if note == make_note(0):
            raise RetryError("POST events: 429 too many")
        posted.append(note)

    poster = EventPoster(send)
    async with posting(poster):
        poster.post(make_view(), make_note(0))
        poster.post(make_view(), make_note(1))
        await poster.drain(10)

    assert posted == [make_note(1)]
    assert "no Event: POST events: 429 too many" in caplog.text


async def test_work_goes_on_when_nobody_takes_events(caplog: pytest.LogCaptureFixture) -> None:
    async def send(*_: object) -> None:
        await asyncio.Event().wait()

    poster = EventPoster(send)
    async with posting(poster):
        for number in range(2000):
            poster.post(make_view(), make_note(number))
        await poster.drain(0.01)

    assert "no Event: 1000 wait" in caplog.text
    assert "are dropped" in caplog.text


async def test_an_event_that_is_repeated_is_counted_in_the_first_one() -> None:
    server = ApiServer()
    poster, view = EventPoster(server.connect().post_event), make_view()
    async with posting(poster):
        for number in (1, 2, 1, 1):
            poster.post(view, make_note(number))
        await poster.drain(10)

    names = server.names("events")
    first = next(r for r in server.asked if r.method == "POST" and r.body["note"] == "note 1")
    patches = [request for request in server.asked if request.method == "PATCH"]
    assert len(names) == 2
    assert [as_object(request.body["series"])["count"] for request in patches] == [2, 3]
    assert {request.path.rpartition("/")[2] for request in patches} == {
        as_object(first.body["metadata"])["name"]
    }


async def test_an_event_that_expired_is_posted_again() -> None:
    server = ApiServer()
    cluster, view = server.connect(), make_view()

    await cluster.post_event(view, make_note(1), "digits.1", 7)

    assert server.names("events") == ["digits.1"]


def test_a_note_is_as_long_as_the_api_server_takes() -> None:
    note = Note("Warning", "Failed", "\u00e9" * 2000)

    event = event_of(make_view(), note, "digits.1", "controller-1", datetime.now(UTC))

    assert len(str(event["note"]).encode()) == 1024
