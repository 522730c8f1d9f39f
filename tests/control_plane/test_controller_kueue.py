"""Kueue says when a run starts and when it makes room; the test plays Kueue."""

import asyncio
import json

from tests.control_plane.world import Object, World, until
from tests.kuberay.api import JOBS
from trainshed_api.json_object import as_object

QUEUE = "kueue.x-k8s.io/queue-name"


async def test_kueue_starts_a_run_and_takes_its_room_away_again(world: World) -> None:
    world.drivers.steps, world.drivers.step_seconds = 600, 0.1
    await world.create_run(labels={QUEUE: "research"}, cluster={"dedicated": {}})

    labels = await wait_for_rayjob(world, "digits-1")
    assert labels[QUEUE] == "research"
    await asyncio.sleep(3)
    assert world.drivers.claims == [], "nobody has admitted it"

    await set_suspend(world, "digits-1", to=False)
    await world.phase("Running")
    await set_suspend(world, "digits-1", to=True)
    await wait_for_rayjob(world, "digits-2")
    assert len(world.drivers.claims) == 1, "nobody has admitted its next attempt"

    world.drivers.steps = 3
    await set_suspend(world, "digits-2", to=False)
    await world.phase("Succeeded")
    status = await world.status()
    assert [attempt.outcome for attempt in status.attempts] == ["Preempted", "Succeeded"]
    assert world.drivers.refused == []


async def wait_for_rayjob(world: World, name: str) -> Object:
    """Wait for a RayJob that is suspended from the start; return its labels."""

    async def is_there() -> bool:
        return name in await world.names(JOBS)

    await until(is_there, 60, world.controller_log)
    found = await world.get(JOBS, name) or {}
    assert as_object(found["spec"])["suspend"] is True
    return as_object(as_object(found["metadata"])["labels"])


async def set_suspend(world: World, name: str, *, to: bool) -> None:
    """Admit a RayJob, or take its room away, as Kueue does: by its field `suspend`."""
    change = json.dumps({"spec": {"suspend": to}})
    await world.kubectl("patch", "rayjob", name, "--type=merge", "-p", change)
