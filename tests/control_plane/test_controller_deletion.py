"""A TrainingRun may be deleted whenever somebody wants to: nothing of it goes on or stays."""

from collections.abc import Awaitable, Callable
from functools import partial

from tests.control_plane.objects import RUNS
from tests.control_plane.world import World
from tests.control_plane.worlds import Worlds
from tests.kuberay.api import CLUSTERS, JOBS


async def queued(world: World) -> None:
    await world.create_run(workers={"count": 8})


async def starting(world: World) -> None:
    world.kubelet.hold_back("no node is left", named="digits")
    await world.create_run(cluster={"dedicated": {}})


async def running(world: World) -> None:
    world.drivers.steps = 500
    await world.create_run()


async def suspended(world: World) -> None:
    await world.create_run(suspend=True)


async def restarting(world: World) -> None:
    world.drivers.fails_at = {1: 1, 2: 1}  # the second failure is followed by a pause
    await world.create_run(failurePolicy={"maxApplicationFailures": 5})
    await world.until(lambda: len(world.drivers.claims) == 2)


async def succeeded(world: World) -> None:
    await world.create_run()


async def failed(world: World) -> None:
    world.drivers.fails_at = {1: 1}
    await world.create_run()


PHASES: dict[str, Callable[[World], Awaitable[None]]] = {
    "Queued": queued,
    "Starting": starting,
    "Running": running,
    "Suspended": suspended,
    "Restarting": restarting,
    "Succeeded": succeeded,
    "Failed": failed,
}


async def test_a_run_may_be_deleted_in_every_phase(worlds: Worlds) -> None:
    await worlds.side_by_side({phase: partial(delete_in, phase) for phase in PHASES})


async def delete_in(phase: str, world: World) -> None:
    await PHASES[phase](world)
    await world.phase(phase)

    await world.delete(RUNS, "digits")

    await world.holds(JOBS)
    await world.holds(CLUSTERS, "trainshed")
    await world.until(lambda: world.drivers.alive == 0)
    world.drivers.steps, world.drivers.fails_at = 2, {}
    await world.create_run("next", workers={"count": 2})  # all of the cluster is free again
    await world.phase("Succeeded", "next")
