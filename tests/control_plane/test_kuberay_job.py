"""The stand-in runs RayJobs as KubeRay does, the unpleasant things included."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from tests.control_plane.plugin import ControlPlane
from tests.kuberay.api import CLUSTERS, JOBS
from tests.kuberay.builders import make_cluster, make_job
from tests.kuberay.drivers import finish, run_until_stopped
from tests.kuberay.jobs_api import Driver, Submission
from tests.kuberay.rayresources import RayJob
from tests.kuberay.stage import Stage, open_stage


def choose(submission: Submission) -> Driver:
    """Choose the driver that a test's entrypoint names."""
    return {
        "succeed": finish("trained"),
        "fail": finish("ValueError: no data", exit_code=1),
        "run": run_until_stopped,
    }[submission.entrypoint]


@pytest.fixture
async def stage(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> AsyncIterator[Stage]:
    """A namespace with a ready cluster that is shared, and KubeRay beside it."""
    async with open_stage(control_plane.kubeconfig, namespace, choose=choose) as opened:
        await opened.create(CLUSTERS, make_cluster())
        await opened.cluster("shared", lambda found: found.status.state == "ready")
        yield opened


def is_in(state: str) -> Callable[[RayJob], bool]:
    return lambda job: job.status.job_deployment_status == state


def is_unanswered(job: RayJob) -> bool:
    return job.status.job_status_check_failure_start_time is not None


def is_running(job: RayJob) -> bool:
    return job.status.job_status == "RUNNING"


def drivers(stage: Stage) -> list[str]:
    """Return the ids of all jobs that any head took."""
    return [took.job.submission_id for took in stage.dashboards.submitted]


async def head_name(stage: Stage, cluster: str = "shared") -> str:
    return next(
        pod.name
        for pod in await stage.pods(cluster)
        if pod.metadata.labels["ray.io/node-type"] == "head"
    )


async def test_a_job_that_fails_says_why(stage: Stage) -> None:
    await stage.create(JOBS, make_job(entrypoint="fail"))
    status = (await stage.job("digits-1", is_in("Failed"))).status
    assert (status.job_status, status.reason, status.failed) == ("FAILED", "AppFailed", 1)
    assert "failed with exit code 1" in status.message
    assert "ValueError: no data" in status.message
    assert status.end_time is not None


async def test_an_id_that_ray_knows_is_taken_as_done_and_nothing_runs(stage: Stage) -> None:
    await stage.create(JOBS, make_job("digits-1", entrypoint="succeed", jobId="again"))
    await stage.job("digits-1", is_in("Complete"))
    await stage.create(JOBS, make_job("digits-2", entrypoint="fail", jobId="again"))
    status = (await stage.job("digits-2", is_in("Complete"))).status
    assert status.job_status == "SUCCEEDED"
    assert drivers(stage) == ["again"]


async def test_a_head_that_comes_back_has_the_same_job_submitted_again(stage: Stage) -> None:
    await stage.create(JOBS, make_job(entrypoint="run", jobId="twice"))
    await stage.job("digits-1", is_running)
    await stage.kubelet.kill_pod(stage.namespace, await head_name(stage))
    await stage.until("a second driver", lambda: drivers(stage) == ["twice", "twice"])
    status = (await stage.job("digits-1")).status
    assert (status.job_deployment_status, status.failed) == ("Running", 0)
    heads = [took.head for took in stage.dashboards.submitted]
    assert heads[0] != heads[1]


async def test_a_dashboard_that_does_not_answer_fails_the_job_after_a_while(stage: Stage) -> None:
    await stage.create(JOBS, make_job(entrypoint="run"))
    await stage.job("digits-1", is_running)
    stage.kubelet.hold_back("no node is left")
    await stage.kubelet.kill_pod(stage.namespace, await head_name(stage))
    await stage.job("digits-1", is_unanswered)
    stage.clock.put_forward(300)
    status = (await stage.job("digits-1", is_in("Failed"))).status
    assert (status.job_status, status.reason) == ("RUNNING", "JobStatusCheckTimeoutExceeded")
    assert status.failed == 1
    assert "exceeded timeout of 300s" in status.message


async def test_a_message_alone_is_not_written(stage: Stage) -> None:
    await stage.create(JOBS, make_job(entrypoint="run", jobId="one"))
    before = await stage.job("digits-1", is_running)
    stage.dashboards.jobs(stage.namespace, "shared")["one"].message = "something else"
    heard = stage.dashboards.num_looks
    # At the second look from now on, what the first one saw would have been written.
    await stage.until("two more looks", lambda: stage.dashboards.num_looks >= heard + 2)
    after = await stage.job("digits-1")
    assert after.status.message == "Job is currently running."
    assert after.metadata.resource_version == before.metadata.resource_version


async def test_a_spec_that_is_put_right_does_not_lead_out_of_a_failed_validation(
    stage: Stage,
) -> None:
    await stage.create(JOBS, make_job(entrypoint="succeed", submissionMode="SidecarMode"))
    status = (await stage.job("digits-1", is_in("ValidationFailed"))).status
    assert "not imitated" in status.message
    await stage.api.patch(
        JOBS, stage.namespace, "digits-1", {"spec": {"submissionMode": "HTTPMode"}}
    )
    # One worker looks at what changed in the order of the changes.
    await stage.create(JOBS, make_job("digits-2", entrypoint="succeed", jobId="later"))
    await stage.job("digits-2", is_in("Complete"))
    status = (await stage.job("digits-1")).status
    assert status.job_deployment_status == "ValidationFailed"
    assert drivers(stage) == ["later"]


async def test_a_job_of_a_cluster_that_is_not_there_waits_and_says_so(
    stage: Stage, control_plane: ControlPlane
) -> None:
    await stage.create(JOBS, make_job(cluster="nowhere", entrypoint="succeed"))
    await stage.job("digits-1", is_in("Initializing"))

    def is_said() -> bool:
        events = control_plane.kubectl("get", "events", "-n", stage.namespace, "-o", "json")
        return "nowhere set in the clusterSelector is not found" in events

    await stage.until("its event", is_said)
    assert (await stage.job("digits-1")).status.job_deployment_status == "Initializing"


async def test_a_lost_head_that_does_not_come_back_ends_in_the_long_timeout(stage: Stage) -> None:
    own = make_job("own-1", None, entrypoint="run")
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    await stage.create(JOBS, own | {"metadata": {"name": "own-1", "annotations": {**annotations}}})
    job = await stage.job("own-1", is_running)
    await stage.kubelet.kill_pod(
        stage.namespace, await head_name(stage, job.status.ray_cluster_name)
    )
    await stage.job("own-1", is_unanswered)
    stage.clock.put_forward(300)
    status = (await stage.job("own-1", is_in("Failed"))).status
    assert (status.job_status, status.reason) == ("RUNNING", "JobStatusCheckTimeoutExceeded")
    assert drivers(stage) == [status.job_id]


async def test_deadlines_are_counted_from_the_start_of_the_attempt(stage: Stage) -> None:
    await stage.create(JOBS, make_job("late", entrypoint="run", activeDeadlineSeconds=3600))
    await stage.job("late", is_running)
    stage.clock.put_forward(3600)
    status = (await stage.job("late", is_in("Failed"))).status
    assert (status.job_status, status.reason) == ("RUNNING", "DeadlineExceeded")
    assert status.start_time is not None
    assert status.end_time is not None
    assert status.end_time - status.start_time >= timedelta(seconds=3600)

    stage.kubelet.hold_back("0/1 nodes are available")
    slow = make_job("slow", None, entrypoint="run", preRunningDeadlineSeconds=3600)
    await stage.create(JOBS, slow)
    await stage.job("slow", is_in("Initializing"))
    stage.clock.put_forward(3600)
    status = (await stage.job("slow", is_in("Failed"))).status
    assert (status.job_status, status.reason) == ("", "PreRunningDeadlineExceeded")


async def test_a_suspended_job_gives_its_cluster_back_and_starts_again(stage: Stage) -> None:
    await stage.create(JOBS, make_job("own-1", None, entrypoint="run"))
    first = await stage.job("own-1", is_running)
    await stage.api.patch(JOBS, stage.namespace, "own-1", {"spec": {"suspend": True}})
    status = (await stage.job("own-1", is_in("Suspended"))).status
    assert (status.job_id, status.ray_cluster_name, status.job_status) == ("", "", "")
    await stage.gone(CLUSTERS, first.status.ray_cluster_name)
    await stage.api.patch(JOBS, stage.namespace, "own-1", {"spec": {"suspend": False}})
    second = await stage.job("own-1", is_running)
    assert second.status.ray_cluster_name != first.status.ray_cluster_name
