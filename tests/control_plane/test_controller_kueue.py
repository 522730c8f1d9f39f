"""Kueue says when a run starts and when it makes room; the test plays Kueue."""

from tests.control_plane.objects import Object
from tests.control_plane.world import World
from tests.kuberay.api import JOBS
from trainshed_api.json_object import as_object

QUEUE = "kueue.x-k8s.io/queue-name"


async def test_kueue_starts_a_run_and_takes_its_room_away_again(world: World) -> None:
    await world.create_run(labels={QUEUE: "research"}, cluster={"dedicated": {}})

    labels = await wait_for_rayjob(world, "digits-1")
    assert labels[QUEUE] == "research"
    await complete_another(world, "first")
    assert len(world.drivers.claims) == 1, "nobody has admitted it"

    world.drivers.steps, world.drivers.step_seconds = 600, 0.1
    await world.patch(JOBS, "digits-1", suspend=False)
    await world.phase("Running")
    world.drivers.steps, world.drivers.step_seconds = 3, 0.05
    await world.patch(JOBS, "digits-1", suspend=True)
    await wait_for_rayjob(world, "digits-2")
    await complete_another(world, "second")
    assert len(world.drivers.claims) == 3, "nobody has admitted its next attempt"

    await world.patch(JOBS, "digits-2", suspend=False)
    await world.phase("Succeeded")
    status = await world.status()
    assert [attempt.outcome for attempt in status.attempts] == ["Preempted", "Succeeded"]
    assert world.drivers.refused == []


async def complete_another(world: World, name: str) -> None:
    """Have a run begin and end without Kueue: whoever waits would have begun meanwhile."""
    await world.create_run(name)
    await world.phase("Succeeded", name)


async def wait_for_rayjob(world: World, name: str) -> Object:
    """Wait for a RayJob that is suspended from the start; return its labels."""

    async def is_there() -> bool:
        return name in await world.names(JOBS)

    await world.until(is_there, f"expected {name}")
    found = await world.get(JOBS, name) or {}
    assert as_object(found["spec"])["suspend"] is True
    return as_object(as_object(found["metadata"])["labels"])
