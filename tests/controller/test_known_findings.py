"""What went wrong once."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tests.controller.builders_view import (
    NOW,
    later,
    look,
    make_cluster,
    make_facts,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
)
from trainshed_api.names import FAILED
from trainshed_api.status import AttemptStatus, ResourceRequest
from trainshed_controller.admission import QueueEntry, admit, capacity_now
from trainshed_controller.judge import judge
from trainshed_controller.model import GroupView, Heard, Room
from trainshed_controller.queue import WorkQueue
from trainshed_controller.views import read_pod, read_run

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject

RUNNING = make_job(deployment_status="Running", job_status="RUNNING")
ON_ITS_OWN: JsonValue = {"dedicated": {}}


def test_a_wait_in_kueue_s_queue_is_no_failure_to_provision() -> None:
    view = make_view(cluster=ON_ITS_OWN, provisioningDeadlineSeconds=600)
    seen = make_seen(cluster=None, head=None)
    view, _ = look(view, seen)
    held = make_job(suspended=True, deployment_status="Suspended")
    view, _ = look(view, replace(seen, ray_job=held), 5_000)

    admitted = make_job(deployment_status="Initializing")
    view, _ = look(view, replace(seen, ray_job=admitted), 5_001)

    assert view.status.phase == "Starting"


def test_a_class_that_is_gone_is_waited_for() -> None:
    view = make_view(cluster={"dedicated": {"class": "renamed"}})

    view, _ = look(view, make_seen(cluster=None, head=None))

    assert view.status.phase == "Queued"


def test_a_status_of_a_later_version_is_left_alone() -> None:
    metadata: JsonObject = {"name": "digits", "namespace": "team", "uid": "u", "generation": 1}
    raw: JsonObject = {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": metadata,
        "spec": {"train": "my_module:train"},
        "status": {"phase": "Hibernating", "attempt": 3},
    }

    _, plan = look(read_run(raw), make_seen())

    assert plan.begin is None


def test_workers_that_are_never_placed_meet_a_deadline() -> None:
    view = make_view(provisioningDeadlineSeconds=600, stallDeadlineSeconds=600)
    view, _ = look(view, make_seen())
    starting = make_snapshot(state="Starting", progress=None)
    for at in (10.0, 100_000.0):
        view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=starting), at)

    assert view.status.phase == "Restarting"


def test_a_silent_driver_may_have_workers_by_now() -> None:
    view, _ = look(make_view(firstStepDeadlineSeconds=600), make_seen())
    starting = make_snapshot(state="Starting", progress=None)
    silent = Heard(num_snapshots=1, silent_seconds=60.0)
    for at in (10.0, 100_000.0):
        seen = make_seen(ray_job=RUNNING, snapshot=starting, heard=silent)
        view, _ = look(view, seen, at)

    assert view.status.phase == "Starting"


def test_a_run_that_ended_has_no_cluster_that_is_ready() -> None:
    view, _ = look(make_view(), make_seen())
    view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 5)
    view, _ = look(view, make_seen(ray_job=replace(RUNNING, job_status="SUCCEEDED")), 9)

    assert view.status.phase == "Succeeded"
    assert not view.status.holds("ClusterReady")


def test_keys_that_failed_together_come_back_one_after_the_other() -> None:
    pauses = {WorkQueue()._pause(("run", "team", str(n)), OSError()) for n in range(9)}  # type: ignore[arg-type]  # a key

    assert len(pauses) > 1


def test_a_job_whose_driver_tells_of_steps_outlives_a_silent_dashboard() -> None:
    view, _ = look(make_view(), make_seen())
    view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 5)
    given_up = make_job(
        job_status="RUNNING", deployment_status="Failed", reason="JobStatusCheckTimeoutExceeded"
    )
    heard = Heard(num_snapshots=60)

    view, plan = look(
        view, make_seen(ray_job=given_up, snapshot=make_snapshot(1, 99, 300), heard=heard), 301
    )

    assert view.status.phase == "Running"
    assert plan.delete_jobs == ()


def test_who_fits_into_what_is_ready_does_not_wait_for_pods_that_are_declared() -> None:
    cluster = make_cluster(GroupView("cpu", Room("cpu", 4.0, 0.0, 8e9), 8))
    ready = [make_worker("cpu", index) for index in range(7)]
    wide = QueueEntry("wide", "wide", ResourceRequest(count=8, cpu=4.0), NOW)
    small = QueueEntry("small", "small", ResourceRequest(count=1, cpu=4.0), later(3600))

    at_first = admit(cluster, ready, [], [wide, small])
    later_on = admit(cluster, ready, [], [wide, small], (), {"wide": 300.0})

    assert at_first["wide"].lacks_pods
    assert not at_first["small"].admitted
    assert later_on["small"].admitted
    assert later_on["wide"].queue.position == 1


def test_an_error_that_the_driver_explained_is_its_own() -> None:
    view = make_view()
    assert view.run
    attempt = AttemptStatus(
        number=1, generation=1, ray_job="digits-1", job_id="j", start_time=NOW,
        head_identity="head-1/c1",
    )  # fmt: skip
    told = make_snapshot(
        state="Ended", outcome=FAILED, exit_code=1, message="ValueError: x", traceback="ValueError"
    )
    job = make_job(job_status="FAILED", message="failed with exit code 1")
    neighbour = make_worker("cpu", 7, ended="OOMKilled", exit_code=137)
    seen = make_seen(ray_job=job, snapshot=told, pods=(make_head(), neighbour))

    ending = judge(make_facts(view, attempt, seen, later(10)))

    assert ending
    assert ending.outcome == "Application"


def test_room_is_that_of_the_pods_that_are_there() -> None:
    cluster = make_cluster(GroupView("cpu", Room("cpu", 8.0, 0.0, 8e9), 1))
    labels: JsonObject = {
        "ray.io/cluster": "trainshed",
        "ray.io/group": "cpu",
        "ray.io/node-type": "worker",
    }
    raw: JsonObject = {
        "metadata": {"name": "w", "namespace": "team", "uid": "w", "labels": labels},
        "spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": "4"}}}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }

    [room] = capacity_now(cluster, [read_pod(raw)])

    assert room.cpu == 4.0
