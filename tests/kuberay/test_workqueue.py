"""The queue of the stand-in: one look at a key at a time, and no look is lost."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from tests.kuberay.api import TryAgainError
from tests.kuberay.mirror import Key
from tests.kuberay.workqueue import WorkQueue

ONE, TWO = ("team", "one"), ("team", "two")


async def work(queue: WorkQueue, until: Callable[[], object]) -> None:
    """Let two work until something holds, and a little longer."""
    tasks = [asyncio.create_task(queue.work()) for _ in range(2)]
    while not until():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_key_stands_in_the_queue_once() -> None:
    looks: Counter[Key] = Counter()

    async def look(key: Key) -> None:
        looks[key] += 1

    queue = WorkQueue(look)
    for key in (ONE, ONE, TWO, ONE):
        queue.add(key)
    await work(queue, lambda: looks.total() >= 2)
    assert looks == {ONE: 1, TWO: 1}


async def test_what_happens_during_a_look_is_looked_at_afterwards_and_not_beside_it() -> None:
    looks: list[str] = []
    beside: list[int] = []

    async def look(key: Key) -> None:
        beside.append(len(looks) % 2)
        looks.append("begin")
        if len(looks) == 1:
            queue.add(key)
        await asyncio.sleep(0.01)
        looks.append("end")

    queue = WorkQueue(look)
    queue.add(ONE)
    await work(queue, lambda: len(looks) >= 4)
    assert looks == ["begin", "end", "begin", "end"]
    assert beside == [0, 0]


async def test_a_look_that_failed_is_repeated_after_longer_and_longer_waits() -> None:
    times: list[float] = []
    enough = asyncio.Event()

    async def look(key: Key) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 4:
            enough.set()
        raise TryAgainError("not yet")

    queue = WorkQueue(look)
    queue.add(ONE)
    working = asyncio.create_task(queue.work())
    await enough.wait()
    working.cancel()
    waits = [after - before for before, after in pairwise(times)]
    for wait, least in zip(waits[:3], (0.005, 0.01, 0.02), strict=True):
        assert wait >= least


async def test_the_earliest_of_several_times_counts() -> None:
    looks: list[Key] = []

    async def look(key: Key) -> None:
        looks.append(key)

    queue = WorkQueue(look)
    queue.add_after(ONE, 60)
    queue.add_after(ONE, 0.01)
    queue.add_after(ONE, 60)
    await work(queue, lambda: looks)
    assert looks == [ONE]
