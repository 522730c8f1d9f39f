"""What a failed test is told about runs: how each does, and what was said last of it and to it."""

import json

from hack.cluster.failure import ClusterError
from tests.e2e.running import RunningCluster
from trainshed_api.status import TrainingRunStatus

_LAST_LINES = "--tail=25"
_DRIVERS = "tail -n 25 $(ls -t /tmp/ray/session_latest/logs/job-driver-*.log | head -3)"


def tell_of_runs(cluster: RunningCluster, namespace: str) -> str:
    """Return conditions of runs, RayJobs, and the last lines of controller and drivers."""
    told = [_runs(cluster, namespace)]
    label = "-lapp.kubernetes.io/component=controller"
    head = "-oname", "-lray.io/node-type=head"
    told += [
        _ask(cluster, namespace, "get", "rayjob,raycluster"),
        _ask(cluster, namespace, "logs", label, _LAST_LINES),
    ]
    for pod in _ask(cluster, namespace, "get", "pod", *head).split():
        inside = ("exec", pod, "-c", "ray-head", "--", "sh", "-c", _DRIVERS)
        told.append(_ask(cluster, namespace, *inside))
    return "\n".join(told)


def _runs(cluster: RunningCluster, namespace: str) -> str:
    said = _ask(cluster, namespace, "get", "trun", "-ojson")
    if not said.startswith("{"):
        return said
    lines = []
    for run in json.loads(said)["items"]:
        status = TrainingRunStatus.model_validate(run.get("status") or {})
        lines.append(f"{run['metadata']['name']}: {status.phase}, attempt {status.attempt}")
        if status.completion_time is None:
            lines += [f"  {c.type} {c.status} {c.reason} {c.message}" for c in status.conditions]
    return "\n".join(lines)


def _ask(cluster: RunningCluster, namespace: str, *words: str) -> str:
    try:
        return cluster.kubectl("--namespace", namespace, *words)
    except ClusterError as trouble:
        return str(trouble)
