"""What the controller sees, for its tests: runs, RayJobs, Pods, clusters as plain values."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from tests.builders import make_document
from trainshed_api.json_object import JsonObject
from trainshed_api.progress import Progress
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_api.validation import validate_document
from trainshed_controller.decide import decide
from trainshed_controller.facts import Facts
from trainshed_controller.model import (
    ClusterClass,
    ClusterView,
    GroupView,
    Observed,
    Place,
    Plan,
    PodView,
    RayJobView,
    Room,
    RunView,
    Settings,
)
from trainshed_controller.project import Said, with_conditions

UID = "0123abcd-0000-4000-8000-000000000000"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLASS_SPEC: dict[str, JsonValue] = {
    "rayVersion": "2.60.0",
    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray-head"}]}}},
    "workerGroupSpecs": [
        {
            "groupName": "gpu",
            "labels": {"trainshed.dev/group": "gpu"},
            "replicas": 0,
            "maxReplicas": 2,
            "template": {
                "spec": {
                    "containers": [{"name": "ray-worker", "resources": {"limits": {"cpu": "4"}}}]
                }
            },
        }
    ],
}
SETTINGS = Settings(
    progress_url="http://controller:8081", classes={"default": ClusterClass("default", CLASS_SPEC)}
)


def look(view: RunView, seen: Observed, at: float = 0.0) -> tuple[RunView, Plan]:
    """Return the run after a look at it, and the plan."""
    plan = decide(view, seen, SETTINGS, later(at))
    return with_status(view, plan.status), plan


def make_facts(view: RunView, attempt: AttemptStatus, seen: Observed, now: datetime) -> Facts:
    """Return the facts about an attempt that was admitted at NOW."""
    status = TrainingRunStatus(attempt=attempt.number, attempts=(attempt,))
    status = with_conditions(status, {"Admitted": Said(True, "Admitted")}, NOW, 1)
    return Facts(with_status(view, status), seen, SETTINGS, now, status)


def later(seconds: float) -> datetime:
    """Return the moment so many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def make_view(
    status: TrainingRunStatus | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    generation: int = 1,
    created: datetime = NOW,
    **spec: JsonValue,
) -> RunView:
    """Return a run as the API server has it, such as make_view(suspend=True)."""
    document = make_document(**spec)
    document["metadata"] = {"name": "digits", "labels": dict(labels or {})}
    return RunView(
        namespace="team",
        name="digits",
        uid=UID,
        generation=generation,
        resource_version="1",
        created=created,
        deleting=False,
        run=validate_document(document, "test"),
        problem="",
        status=status or TrainingRunStatus(),
    )


def with_status(view: RunView, status: TrainingRunStatus) -> RunView:
    """Return the run as it is after its status was written and read again."""
    raw = status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return replace(view, status=TrainingRunStatus.model_validate(raw))


def make_job(number: int = 1, **fields: object) -> RayJobView:
    """Return a RayJob of the run, such as make_job(job_status="RUNNING")."""
    job = RayJobView("team", f"digits-{number}", f"job-{number}", "1", owner=UID, run="digits")
    return replace(job, **fields)  # type: ignore[arg-type]  # checked by whoever reads the field


def make_head(container: str = "c1", **fields: object) -> PodView:
    """Return the head Pod of the shared cluster."""
    pod = PodView("team", "trainshed-head-x", "head-1", "1", "trainshed", "", is_head=True)
    running = replace(pod, ready=True, container=container, node="node1")
    return replace(running, **fields)  # type: ignore[arg-type]  # as above


def raw_pod(pod: PodView) -> JsonObject:
    """Return a Pod that runs, as the API server has it."""
    kind = "head" if pod.is_head else "worker"
    labels: JsonObject = {
        "ray.io/cluster": pod.cluster,
        "ray.io/group": pod.group,
        "ray.io/node-type": kind,
        "ray.io/is-ray-node": "yes",
    }
    return {
        "metadata": {"name": pod.name, "uid": pod.uid, "labels": labels},
        "spec": {"nodeName": pod.node, "containers": [{"name": "ray"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(pod.ready)}],
            "containerStatuses": [
                {"name": "ray", "containerID": pod.container, "state": {"running": {}}}
            ],
        },
    }


def make_worker(group: str = "cpu", index: int = 0, **fields: object) -> PodView:
    """Return a ready worker Pod of the shared cluster."""
    name = f"trainshed-{group}-worker-{index}"
    pod = PodView("team", name, name, "1", "trainshed", group, is_head=False, ready=True)
    return replace(pod, **fields)  # type: ignore[arg-type]  # as above


def make_cluster(*groups: GroupView, **fields: object) -> ClusterView:
    """Return the shared cluster; without groups one Pod `cpu` with 4 CPUs."""
    there = groups or (GroupView("cpu", Room("cpu", 4.0, 0.0, 8e9), 1),)
    cluster = ClusterView("team", "trainshed", "cluster-1", "1", groups=there)
    return replace(cluster, **fields)  # type: ignore[arg-type]  # as above


def make_seen(**fields: object) -> Observed:
    """Return what is seen of a run that may begin on the shared cluster, and what is said."""
    seen = Observed(cluster=make_cluster(), head=make_head(), place=Place(admitted=True))
    return replace(seen, **fields)  # type: ignore[arg-type]  # as above


def make_snapshot(number: int = 1, step: int = 10, at: float = 0.0, **fields: object) -> Snapshot:
    """Return what a driver that trains says."""
    moment = later(at).timestamp()
    progress = Progress(time=moment, epoch=1, epochs=5, step=step, steps=100, loss=0.31)
    told = Snapshot(attempt=number, time=moment, state="Training", progress=progress)
    return told.model_copy(update=fields)
