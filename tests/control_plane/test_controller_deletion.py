"""A TrainingRun may be deleted whenever somebody wants to: nothing of it goes on or stays."""

from collections.abc import Awaitable, Callable

import pytest

from tests.control_plane.world import World, until
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
    await until(lambda: len(world.drivers.claims) == 2, 90, world.controller_log)


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


@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_may_be_deleted_in_every_phase(world: World, phase: str) -> None:
    await PHASES[phase](world)
    await world.phase(phase)

    await world.kubectl("delete", "trun", "digits", "--timeout=60s")

    async def is_gone() -> bool:
        left = [*await world.names(JOBS), *await world.names(CLUSTERS)]
        return left == ["trainshed"] and world.drivers.alive == 0

    await until(is_gone, 90, world.controller_log)
    world.drivers.steps, world.drivers.fails_at = 2, {}
    await world.create_run("next", workers={"count": 2})  # all of the cluster is free again
    await world.phase("Succeeded", "next")
