"""Whatever goes wrong between controller and API server, the end is the same, nothing is twice."""

from collections.abc import Callable

import pytest

from tests.control_plane.interference import Fault
from tests.control_plane.world import World

pytestmark = [
    pytest.mark.timeout(400),
    # What is killed on purpose leaves connections open behind it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ANSWERS: tuple[Fault, ...] = ("409", "410", "429", "500", "cut", "lost")


@pytest.mark.parametrize("fault", ANSWERS)
async def test_every_write_may_fail_once(world: World, fault: Fault) -> None:
    world.drivers.fails_at = {1: 2}
    # Every other one: each write is met by it, and its repetition goes through.
    world.api.start_counting(lambda count: fault if count % 2 == 0 else None)

    await world.create_run(failurePolicy={"maxApplicationFailures": 1})
    await world.phase("Succeeded")

    status = await world.status()
    assert [a.outcome for a in status.attempts] == ["Application", "Succeeded"]
    assert len(world.drivers.claims) == 2
    assert world.drivers.refused == []
    assert await world.names("rayjobs") == ["digits-2"]


def _only(position: int, fault: Fault) -> Callable[[int], Fault | None]:
    return lambda count: fault if count == position else None


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["killed before", "killed after"])
async def test_the_controller_may_die_at_every_write(world: World, fault: Fault) -> None:
    world.api.start_counting()
    await world.create_run("model")
    await world.phase("Succeeded", "model")
    recorded = [(r.method, r.path.rpartition("/")[2]) for r in world.api.writes()]
    assert ("POST", "rayjobs") in recorded

    for position in range(len(recorded)):
        name = f"run-{position}"
        world.api.start_counting(_only(position, fault))
        await world.create_run(name)
        await world.killed(at_most_seconds=20)
        await world.start_controller()
        await world.phase("Succeeded", name)
        status = await world.status(name)
        assert len(status.attempts) == 1, f"{fault} write {position}: {recorded[position]}"
        assert f"{name}-1" in await world.names("rayjobs")

    assert world.drivers.refused == []
    assert len(set(world.drivers.claims)) == len(world.drivers.claims) == len(recorded) + 1
