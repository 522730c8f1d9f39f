"""The status, Events and `trainshed why` state the same cause in the same words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.controller.builders_view import look, make_job, make_seen, make_snapshot
from tests.controller.history import FOLDER, SETTINGS, read_history
from tests.controller.test_reconcile import running
from trainshed.causes import pods
from trainshed.causes.cluster_run import ClusterRun, explain
from trainshed_controller import views
from trainshed_controller.decide import decide

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed_api.json_object import JsonObject

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
KILLED: JsonObject = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
FAILED: JsonObject = {"terminated": {"reason": "Error", "exitCode": 3}}


def waits(reason: str, message: str = "", **state: JsonObject) -> JsonObject:
    """Return a Pod whose container waits."""
    waiting: JsonObject = {"waiting": {"reason": reason, "message": message}}
    return make_pod(
        {"containerStatuses": [{"name": "ray", "image": "app:1", "state": waiting, **state}]}
    )


def make_pod(status: JsonObject) -> JsonObject:
    limits: JsonObject = {"limits": {"memory": "4Gi"}}
    return {
        "metadata": {"name": "worker", "uid": "worker"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "ray", "resources": limits}]},
        "status": status,
    }


TROUBLES = {
    "an image that is missing": waits("ErrImagePull", "not found"),
    "an image between two pulls": waits(
        "ImagePullBackOff", 'Back-off pulling image "app:1": ErrImagePull: not found'
    ),
    "a Secret that is missing": waits("CreateContainerConfigError", "no secret"),
    "a container that ends again and again": waits("CrashLoopBackOff", lastState=FAILED),
    "a container that runs out of memory": waits("CrashLoopBackOff", lastState=KILLED),
    "no node": make_pod(
        {
            "conditions": [
                {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes"}
            ]
        }
    ),
}


@pytest.mark.parametrize("raw", TROUBLES.values(), ids=TROUBLES)
def test_why_a_pod_does_not_start_is_worded_once(raw: JsonObject) -> None:
    trouble = views.read_pod(raw).trouble

    assert trouble
    assert trouble.message == pods.read_pod(raw, (), NOW).trouble


def test_how_a_pod_ran_out_of_memory_is_worded_once() -> None:
    raw = make_pod({"containerStatuses": [{"name": "ray", "state": KILLED}]})

    said = pods.read_pod(raw, (), NOW).trouble

    assert said == views.read_pod(raw).how_ended
    assert said == (
        "Pod worker on node node-a: container ray ran out of memory, of which it may use 4Gi "
        "(OOMKilled)"
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_why_repeats_the_event_of_a_run_that_failed_or_restarts(path: Path) -> None:
    for each, _ in read_history(path):
        plan = decide(each.view, each.seen, SETTINGS, each.now)
        told = [note for note in plan.notes if note.reason in ("Failed", "Restarting")]
        if not told:
            continue
        raw: JsonObject = {
            "metadata": {"name": each.view.name, "namespace": each.view.namespace},
            "status": plan.status.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        }

        assert explain(ClusterRun(raw, each.now), each.view.name, "").cause == told[-1].message


@pytest.mark.parametrize(
    ("message", "driver"),
    [
        ("failed with exit code 1", ("ValueError: x", "Traceback\n  line 3\nValueError: x")),
        ("exit code 1, last available logs (truncated):\n\nstep 3\nValueError: x", None),
    ],
    ids=["the driver's last word", "the end of its log"],
)
def test_an_event_and_why_leave_out_what_is_behind_the_cause(
    message: str, driver: tuple[str, str] | None
) -> None:
    job = make_job(job_status="FAILED", message=f"Job entrypoint command {message}")
    ended = driver and make_snapshot(
        state="Ended", outcome="Failed", exit_code=1, message=driver[0], traceback=driver[1]
    )

    view, plan = look(running(), make_seen(ray_job=job, snapshot=ended), 30)

    [note] = plan.notes
    raw: JsonObject = {
        "metadata": {"name": view.name, "namespace": view.namespace},
        "status": view.status.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }
    assert note.message == "ValueError: x"
    assert explain(ClusterRun(raw, NOW), view.name, "").cause == note.message
