"""From a TrainingRun to Complete and beyond, on a real API server."""

from tests.control_plane.objects import RUNS
from tests.control_plane.world import World
from tests.kuberay.api import CLUSTERS, JOBS, PODS


async def test_a_run_is_applied_and_completes_and_trains_again_after_a_delete(world: World) -> None:
    await world.create_run()
    await world.phase("Succeeded")
    first = await world.status()
    assert first.progress
    assert first.progress.step == 3
    assert first.result
    assert first.result.path == "result.json"
    assert [a.outcome for a in first.attempts] == ["Succeeded"]
    assert await world.names(JOBS) == ["digits-1"]
    described = await world.kubectl("describe", "trun", "digits")
    for reason in ("Starting", "Running", "Succeeded"):
        assert f"Normal  {reason}" in described

    await world.delete(RUNS, "digits")
    await world.delete(JOBS, "digits-1")
    await world.create_run()
    await world.phase("Succeeded")

    assert len(world.drivers.claims) == 2, "an id that Ray remembers never runs again"
    assert world.drivers.refused == []
    assert (await world.status()).attempts[0].job_id != first.attempts[0].job_id


async def test_a_failed_attempt_is_followed_by_one_that_resumes(world: World) -> None:
    world.drivers.fails_at = {1: 2}

    await world.create_run(failurePolicy={"maxApplicationFailures": 1})
    await world.phase("Succeeded")

    status = await world.status()
    assert [a.outcome for a in status.attempts] == ["Application", "Succeeded"]
    assert status.failures.application == 1
    assert "ValueError: at step 2" in status.attempts[0].message
    assert await world.names(JOBS) == ["digits-2"]


async def test_a_failure_beyond_the_budget_is_final(world: World) -> None:
    world.drivers.fails_at = {1: 2}

    await world.create_run()
    await world.phase("Failed")

    condition = (await world.status()).condition("Failed")
    assert condition
    assert (condition.reason, "ValueError: at step 2" in condition.message) == (
        "ApplicationFailed",
        True,
    )
    assert len(world.drivers.claims) == 1


async def test_suspend_stops_after_a_checkpoint_and_resume_goes_on(world: World) -> None:
    world.drivers.steps = 200
    await world.create_run()
    await world.phase("Running")

    await world.patch(RUNS, "digits", suspend=True)
    await world.phase("Suspended")
    kept = next(iter(world.drivers.kept.values()))
    assert kept > 0
    await world.until(lambda: world.drivers.alive == 0)
    await world.holds(JOBS)

    world.drivers.steps = kept + 2
    await world.patch(RUNS, "digits", suspend=False)
    await world.phase("Succeeded")
    status = await world.status()
    assert [a.outcome for a in status.attempts] == ["Stopped", "Succeeded"]
    assert status.failures.application == 0
    assert status.time.suspended >= 0


async def test_a_killed_head_ends_the_attempt_and_the_next_one_resumes(world: World) -> None:
    world.drivers.steps = 100
    await world.create_run()
    await world.phase("Running")
    (head,) = [name for name in await world.names(PODS) if "-head-" in name]
    world.drivers.steps = 3

    await world.kubelet.kill_pod(world.namespace, head)
    await world.phase("Succeeded")

    status = await world.status()
    assert [a.reason for a in status.attempts] == ["HeadLost", "Succeeded"]
    assert status.failures.infrastructure == 1
    uids = {uid for uid, _ in world.drivers.claims}
    assert len(world.drivers.claims) == 2 * len(uids), "one driver an attempt"


async def test_a_foreign_rayjob_in_the_way_is_left_alone(world: World) -> None:
    await world.create(
        JOBS,
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "digits-1"},
            "spec": {
                "entrypoint": "true",
                "suspend": True,
                "shutdownAfterJobFinishes": True,
                "rayClusterSpec": {
                    "headGroupSpec": {
                        "rayStartParams": {},
                        "template": {"spec": {"containers": [{"name": "h", "image": "x:1"}]}},
                    }
                },
            },
        },
    )
    await world.create_run()

    await world.reason("Progressing", "RayJobNameTaken")
    assert await world.names(JOBS) == ["digits-1"]
    assert world.drivers.claims == []


async def test_the_end_is_known_although_the_controller_was_away(world: World) -> None:
    world.drivers.steps = 30
    await world.create_run()
    await world.phase("Running")

    await world.kill_controller()
    await world.until(lambda: world.drivers.alive == 0)
    await world.start_controller()
    await world.phase("Succeeded")

    status = await world.status()
    assert status.progress
    assert status.progress.step == 30, "its last words are read from the job's log"
    assert status.result
    assert len(world.drivers.claims) == 1


async def test_a_run_may_have_a_cluster_of_its_own(world: World) -> None:
    await world.create_run(cluster={"dedicated": {}}, workers={"count": 2})
    await world.phase("Succeeded")

    (attempt,) = (await world.status()).attempts
    assert attempt.ray_cluster.startswith("digits-1-")
    job = await world.get(JOBS, "digits-1")
    assert job
    spec = job["spec"]
    assert isinstance(spec, dict)
    assert "clusterSelector" not in spec
    groups = spec["rayClusterSpec"]["workerGroupSpecs"]  # type: ignore[index,call-overload]  # JSON
    assert [group["replicas"] for group in groups] == [2]  # type: ignore[index,call-overload,union-attr]  # JSON
    await world.gone(CLUSTERS, attempt.ray_cluster)


async def test_a_run_is_deleted_some_time_after_its_end(world: World) -> None:
    await world.create_run(ttlSecondsAfterFinished=1)

    await world.gone(RUNS, "digits")
    assert len(world.drivers.claims) == 1
