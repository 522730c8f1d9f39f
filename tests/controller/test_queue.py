"""The queue: a key once, one worker a key, pauses that grow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from trainshed_controller.errors import RetryError
from trainshed_controller.model import Key
from trainshed_controller.queue import WorkQueue

A, B = Key("run", "team", "a"), Key("run", "team", "b")
Work = Callable[[Key], Awaitable[float | None]]


@contextlib.asynccontextmanager
async def working(work: Work, workers: int = 4) -> AsyncIterator[WorkQueue]:
    """A queue at work."""
    queue = WorkQueue()
    task = asyncio.create_task(queue.run(workers, work, ignore))
    yield queue
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def is_idle(queue: WorkQueue) -> bool:
    """Say whether no key waits and none is worked on."""
    return not queue.depth and not queue.longest_turn_seconds()


async def ignore(_key: Key, _error: Exception, _pause: float) -> None:
    """What a failure is told to here."""


async def until(happened: Callable[[], object]) -> None:
    while not happened():
        await asyncio.sleep(0.01)


async def test_a_key_that_waits_is_worked_on_once() -> None:
    seen: list[Key] = []

    async def work(key: Key) -> None:
        seen.append(key)

    queue = WorkQueue()
    for key in (A, A, B, A):
        queue.add(key)
    assert queue.depth == 2
    task = asyncio.create_task(queue.run(1, work, ignore))
    await until(lambda: is_idle(queue))
    task.cancel()

    assert seen == [A, B]


async def test_one_key_has_one_worker_and_another_turn_if_it_changed_meanwhile() -> None:
    busy, most, turns = 0, 0, 0
    release = asyncio.Event()

    async def work(_: Key) -> None:
        nonlocal busy, most, turns
        busy, turns = busy + 1, turns + 1
        most = max(most, busy)
        await release.wait()
        busy -= 1

    async with working(work) as queue:
        queue.add(A)
        await until(lambda: busy)
        queue.add(A)
        queue.add(A)
        release.set()
        await until(lambda: is_idle(queue))

    assert (most, turns) == (1, 2)


async def test_trouble_that_passes_is_tried_again_after_a_growing_pause() -> None:
    pauses: list[float] = []
    failures = iter([True, True, False])
    done = asyncio.Event()

    async def work(_: Key) -> None:
        if next(failures):
            raise ConnectionError
        done.set()

    async def note(_key: Key, _error: Exception, pause: float) -> None:
        pauses.append(pause)

    queue = WorkQueue()
    task = asyncio.create_task(queue.run(1, work, note))
    queue.add(A)
    await asyncio.wait_for(done.wait(), 5)
    task.cancel()

    first, second = pauses
    assert 0.2 <= first <= 0.25
    assert second == pytest.approx(2 * first)


async def test_a_key_that_always_fails_keeps_no_other_from_its_turn() -> None:
    seen = asyncio.Event()

    async def work(key: Key) -> None:
        if key == A:
            raise ZeroDivisionError
        seen.set()

    async with working(work, workers=1) as queue:
        queue.add(A)
        queue.add(B)
        await asyncio.wait_for(seen.wait(), 5)


async def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    pauses: list[float] = []

    async def work(_: Key) -> None:
        raise RetryError("GET runs: 429", after=7.0)

    async def note(_key: Key, _error: Exception, pause: float) -> None:
        pauses.append(pause)

    queue = WorkQueue()
    task = asyncio.create_task(queue.run(1, work, note))
    queue.add(A)
    await until(lambda: pauses)
    task.cancel()

    assert 7.0 <= pauses[0] <= 8.75


async def test_the_earlier_of_two_times_stands() -> None:
    seen: list[Key] = []

    async def work(key: Key) -> None:
        seen.append(key)

    async with working(work) as queue:
        queue.add_after(A, 0.01)
        queue.add_after(A, 60)
        await until(lambda: seen)

    assert seen == [A]


async def test_a_turn_that_takes_too_long_can_be_seen_and_a_key_that_waits_is_none() -> None:
    now = 0.0

    async def work(_: Key) -> None:
        await asyncio.Event().wait()

    queue = WorkQueue(lambda: now)
    task = asyncio.create_task(queue.run(1, work, ignore))
    queue.add(A)
    await until(lambda: not queue.depth)
    now = 10.0
    queue.add(B)
    now = 130.0

    assert queue.longest_turn_seconds() == 130.0
    task.cancel()
    await asyncio.wait([task])
    assert queue.longest_turn_seconds() == 0.0
    assert queue.depth == 1
