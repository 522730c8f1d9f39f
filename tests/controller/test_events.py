"""Events are posted beside the work, which never waits for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.controller.builders_view import make_view
from trainshed_controller.errors import RetryError
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

    async def send(_: RunView, note: Note) -> None:
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

    async def send(_: RunView, note: Note) -> None:
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
    async def send(_: RunView, _note: Note) -> None:
        await asyncio.Event().wait()

    poster = EventPoster(send)
    async with posting(poster):
        for number in range(2000):
            poster.post(make_view(), make_note(number))
        await poster.drain(0.01)

    assert "no Event: 1000 wait" in caplog.text
    assert "are dropped" in caplog.text
