"""Runs wait for room on a shared cluster, in their order, and say what they wait for."""

import asyncio

from tests.control_plane.objects import RUNS, Object, make_wide_cluster
from tests.control_plane.world import World, is_cluster_ready
from tests.kuberay.api import CLUSTERS
from trainshed_api.json_object import as_object

NUM_WAITING = 12


async def test_runs_queue_for_a_cluster_and_never_oversubscribe_it(world: World) -> None:
    await world.create(CLUSTERS, make_wide_cluster())
    await world.until(lambda: is_cluster_ready(world, "wide"))
    spec: Object = {
        "cluster": {"shared": "wide"},
        # Three fit by the sum of CPUs, two by Pod.
        "workers": {"count": 1, "resources": {"cpu": 2}},
    }
    world.drivers.steps = 10**6
    for name in ("early", "late"):
        await world.create_run(name, **spec)
        await world.phase("Running", name)
    world.drivers.steps = 1
    waiting = [f"run-{number}" for number in range(NUM_WAITING)]
    for number, name in enumerate(waiting):
        await world.create_run(name, **spec, priority=number % 3)
    for name in waiting:
        await world.reason("Admitted", "Queued", name)

    listed, _ = await world.kube.list_all(RUNS, world.namespace)
    in_order = [uid_of(run) for run in sorted(listed, key=place_of) if name_of(run) in waiting]
    world.drivers.held = asyncio.Event()
    # Not deleted: what the API server collects later would still run beside those that come next.
    for name in ("early", "late"):
        await world.patch(RUNS, name, suspend=True)
    for first in range(0, NUM_WAITING, 2):
        begun = await next_two(world, 2 + first)
        # Two that are let in together may begin in either order; neither ends before both began.
        assert begun == set(in_order[first : first + 2])
        let_go, world.drivers.held = world.drivers.held, asyncio.Event()
        let_go.set()
    for name in waiting:
        await world.phase("Succeeded", name)
    assert world.drivers.most_at_work == 2


async def next_two(world: World, num_before: int) -> set[str]:
    """Return the two that begin after so many others."""
    claims = world.drivers.claims
    await world.until(lambda: len(claims) == num_before + 2, "expected two to begin")
    return {uid for uid, _ in claims[num_before:]}


def name_of(run: Object) -> str:
    """Return a run's name."""
    return str(as_object(run["metadata"])["name"])


def uid_of(run: Object) -> str:
    """Return who a run is."""
    return str(as_object(run["metadata"])["uid"])


def place_of(run: Object) -> tuple[int, str, str]:
    """Return what the queue goes by: the highest priority first, then the oldest."""
    metadata, priority = as_object(run["metadata"]), as_object(run["spec"])["priority"]
    assert isinstance(priority, int)
    return -priority, str(metadata["creationTimestamp"]), uid_of(run)


async def test_what_can_never_fit_says_so_at_once(world: World) -> None:
    await world.create_run(workers={"count": 8, "resources": {"gpu": 1}})

    await world.reason("Admitted", "ExceedsCluster")
    queue = (await world.status()).queue
    assert queue
    assert queue.reason.startswith("can never fit: needs 8 GPUs, 0 in all")
