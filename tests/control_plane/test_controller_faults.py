"""Whatever goes wrong between controller and API server, the end is the same, nothing is twice."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from pydantic import JsonValue

from tests.control_plane.interference import Fault
from tests.control_plane.world import World
from tests.control_plane.worlds import Worlds
from tests.kuberay.api import JOBS
from trainshed_controller.settings import Timings

pytestmark = pytest.mark.timeout(600)
ANSWERS: tuple[Fault, ...] = ("409", "410", "429", "500", "cut", "lost", "held")
# What is held is given up soon, and not so soon that a busy machine is taken for one that holds.
IMPATIENT = Timings(request_seconds=3.0, silence_seconds=4.0, retry_seconds=0.05)


async def test_every_write_may_fail_once(worlds: Worlds) -> None:
    await worlds.side_by_side(
        {fault: partial(with_writes_spoilt, fault) for fault in ANSWERS}, IMPATIENT
    )


async def with_writes_spoilt(fault: Fault, world: World) -> None:
    # Every other one: each write is met by it, and its repetition goes through.
    world.api.start_counting(lambda count: fault if count % 2 == 0 else None)

    await fail_and_succeed(world)


async def test_every_read_may_fail_once(worlds: Worlds) -> None:
    answers = [fault for fault in ANSWERS if fault != "held"]
    await worlds.side_by_side({fault: partial(with_reads_spoilt, fault) for fault in answers})


async def test_no_outage_ends_the_controller(worlds: Worlds) -> None:
    outages: tuple[Fault, ...] = ("401", "403", "429", "500", "cut")
    await worlds.side_by_side({fault: partial(with_an_outage, fault) for fault in outages})


async def with_an_outage(fault: Fault, world: World) -> None:
    world.drivers.steps = 20
    await world.create_run()
    await world.phase("Running")

    world.api.begin_outage(fault)
    await asyncio.sleep(5)
    await world.create_run("second")
    world.api.outage = None

    await world.phase("Succeeded")
    await world.phase("Succeeded", "second")
    assert len(world.drivers.claims) == 2


async def test_every_read_may_be_held_once(worlds: Worlds) -> None:
    await worlds.side_by_side({"held": partial(with_reads_spoilt, "held")}, IMPATIENT)


async def with_reads_spoilt(fault: Fault, world: World) -> None:
    await world.kill_controller()
    world.api.start_counting(spoil_read=fault)
    await world.start_controller()

    await fail_and_succeed(world)


async def fail_and_succeed(world: World) -> None:
    world.drivers.fails_at = {1: 2}
    await world.create_run(failurePolicy={"maxApplicationFailures": 1})
    await world.phase("Succeeded")

    status = await world.status()
    assert [a.outcome for a in status.attempts] == ["Application", "Succeeded"]
    assert len(world.drivers.claims) == 2
    assert world.drivers.refused == []
    assert await world.names(JOBS) == ["digits-2"]


# What is asked of the controller, and how many attempts it takes.
PATHS: dict[str, tuple[dict[str, JsonValue], int]] = {
    "at once": ({}, 1),
    "after a failure": ({"failurePolicy": {"maxApplicationFailures": 1}}, 2),
    "on a cluster of its own": ({"cluster": {"dedicated": {}}}, 1),
}


def _only(position: int, fault: Fault) -> Callable[[int], Fault | None]:
    return lambda count: fault if count == position else None


async def test_the_controller_may_die_at_every_write(worlds: Worlds) -> None:
    # Killed before a write it leaves what it left after the one before: only the first has none.
    acts = {f"{path}, after each": partial(die_at_writes, path, "killed after") for path in PATHS}
    first = partial(die_at_writes, "at once", "killed before", most=1)
    # Processes: what a thread of ours answers to drivers in its last moments is still heard.
    await worlds.side_by_side({**acts, "before the first": first}, are_processes=True)


async def die_at_writes(path: str, fault: Fault, world: World, *, most: int | None = None) -> None:
    spec, attempts = PATHS[path]
    world.drivers.steps = 1  # each step may be a write, and all of these are alike
    world.drivers.fails_at = {1: 1} if attempts > 1 else {}
    world.api.start_counting()
    await world.create_run("model", **spec)
    await world.phase("Succeeded", "model")
    recorded = [(r.method, r.path.rpartition("/")[2]) for r in world.api.writes()]
    assert [kind for _, kind in recorded].count("rayjobs") == attempts

    for position in range(len(recorded))[:most]:
        name = f"run-{position}"
        world.api.start_counting(_only(position, fault))
        await world.create_run(name, **spec)
        await world.until(partial(_is_killed_or_done, world, name))
        await world.kill_controller()
        await world.start_controller()
        await world.phase("Succeeded", name)
        status = await world.status(name)
        assert len(status.attempts) == attempts, f"{fault} write {position}: {recorded[position]}"
        assert f"{name}-{attempts}" in await world.names(JOBS)

    assert world.drivers.refused == []
    claims = world.drivers.claims
    assert len(set(claims)) == len(claims) == attempts * (position + 2)


async def _is_killed_or_done(world: World, name: str) -> bool:
    """Not every run writes as much: what is said of progress depends on the moment."""
    return not world.has_controller() or (await world.status(name)).phase == "Succeeded"
