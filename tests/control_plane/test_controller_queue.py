"""Runs wait for room on a shared cluster, in their order, and say what they wait for."""

import json

import pytest

from tests.control_plane.world import CLUSTER, Object, World, is_cluster_ready, until


@pytest.mark.timeout(900)
async def test_runs_queue_for_a_cluster_and_never_oversubscribe_it(world: World) -> None:
    world.drivers.steps = 1
    await world.create(wide_cluster())
    await until(lambda: is_cluster_ready(world, "wide"), 90)
    spec: Object = {
        "cluster": {"shared": "wide"},
        # Three fit by the sum of CPUs, two by Pod.
        "workers": {"count": 1, "resources": {"cpu": 2}},
    }
    for number in range(50):
        await world.create_run(f"run-{number}", **spec)

    for number in range(50):
        await world.phase("Succeeded", f"run-{number}", seconds=300)

    assert world.drivers.most_alive <= 2
    assert len(world.drivers.claims) == 50
    listed = json.loads(await world.kubectl("get", "trun", "-o", "json"))["items"]
    created = {item["metadata"]["uid"]: item["metadata"]["creationTimestamp"] for item in listed}
    began = [created[uid] for uid, _ in world.drivers.claims]
    # Two that are let in together may begin in either order.
    assert all(earlier <= later for earlier, later in zip(began, began[2:], strict=False))


def wide_cluster() -> Object:
    """Return a RayCluster `wide` of two Pods with three CPUs each."""
    text = json.dumps(CLUSTER).replace('"name": "trainshed"', '"name": "wide"')
    found: Object = json.loads(text.replace('"cpu": "1"', '"cpu": "3"'))
    return found


async def test_what_can_never_fit_says_so_at_once(world: World) -> None:
    await world.create_run(workers={"count": 8, "resources": {"gpu": 1}})

    async def is_said() -> bool:
        condition = (await world.status()).condition("Admitted")
        return condition is not None and condition.reason == "ExceedsCluster"

    await until(is_said, 60, world.controller_log)
    queue = (await world.status()).queue
    assert queue
    assert queue.reason.startswith("can never fit: needs 8 GPUs, 0 in all")
