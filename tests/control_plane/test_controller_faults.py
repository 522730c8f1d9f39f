"""Whatever goes wrong between controller and API server, the end is the same, nothing is twice."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from tests.control_plane.interference import Fault
from tests.control_plane.world import World
from tests.kuberay.api import JOBS

pytestmark = pytest.mark.timeout(600)
ANSWERS: tuple[Fault, ...] = ("409", "410", "429", "500", "cut", "lost", "held")


@pytest.mark.parametrize("fault", ANSWERS)
async def test_every_write_may_fail_once(world: World, fault: Fault) -> None:
    # Every other one: each write is met by it, and its repetition goes through.
    world.api.start_counting(lambda count: fault if count % 2 == 0 else None)

    await fail_and_succeed(world)


@pytest.mark.parametrize("fault", ANSWERS)
async def test_every_read_may_fail_once(world: World, fault: Fault) -> None:
    await world.kill_controller()
    world.is_restarted = True  # a watch that cannot be kept up ends the process
    world.api.start_counting(spoil_read=fault)
    await world.start_controller()

    await fail_and_succeed(world)


async def fail_and_succeed(world: World) -> None:
    world.drivers.fails_at = {1: 2}
    await world.create_run(failurePolicy={"maxApplicationFailures": 1})
    await world.phase("Succeeded", seconds=400)

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


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", ["killed before", "killed after"])
@pytest.mark.parametrize("path", PATHS)
async def test_the_controller_may_die_at_every_write(world: World, path: str, fault: Fault) -> None:
    spec, attempts = PATHS[path]
    world.drivers.fails_at = {1: 2} if attempts > 1 else {}
    world.api.start_counting()
    await world.create_run("model", **spec)
    await world.phase("Succeeded", "model")
    recorded = [(r.method, r.path.rpartition("/")[2]) for r in world.api.writes()]
    assert [kind for _, kind in recorded].count("rayjobs") == attempts

    for position in range(len(recorded)):
        name = f"run-{position}"
        world.api.start_counting(_only(position, fault))
        await world.create_run(name, **spec)
        await world.killed(at_most_seconds=20)
        await world.start_controller()
        await world.phase("Succeeded", name)
        status = await world.status(name)
        assert len(status.attempts) == attempts, f"{fault} write {position}: {recorded[position]}"
        assert f"{name}-{attempts}" in await world.names(JOBS)

    assert world.drivers.refused == []
    claims = world.drivers.claims
    assert len(set(claims)) == len(claims) == attempts * (len(recorded) + 1)
