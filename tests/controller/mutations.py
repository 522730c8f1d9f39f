"""Objects as they might come: right ones, and those in which one thing is anything but right."""

import copy
import json
from collections.abc import Iterator

from hypothesis import strategies as st
from pydantic import JsonValue

from tests.builders import make_document
from trainshed_api.json_object import JsonObject

Path = tuple[str | int, ...]


def _nested(levels: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(levels):
        value = [value]
    return value


# What JSON may hold where something else should be.
WRONG: dict[str, JsonValue] = {
    "null": None, "true": True, "zero": 0, "minus one": -1, "a fraction": 0.5,
    "an int over int64": 2**70, "an int of 400 digits": 10**400, "a huge float": 1e308,
    "NaN": float("nan"), "infinity": float("inf"), "no text": "", "a text": "x",
    "a huge quantity": "1e309", "a quantity of many digits": "9" * 400, "a negative one": "-4",
    "a tiny one": "1e-400", "a denormal one": 1e-320, "the text NaN": "NaN",
    "a variable": "$MY_CPU",
    "no date": "2026-13-45T99:99:99Z", "the year 0": "0000-01-01T00:00:00Z",
    "the year 9999": "9999-12-31T23:59:59-23:59", "the first year": "0001-01-01T00:00:00+23:59",
    "a NUL": "\x00", "half a character": "\ud800", "a long text": "x" * 100_000,
    "an empty list": [], "a list of null": [None], "a list of lists": [[1], [[]]],
    "a list of texts": ["a", "b"], "an empty object": {}, "an object": {"a": {"b": None}},
    "a deep list": _nested(300),
}  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from(list(WRONG.values())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


# What the API server sees to: no object without them comes.
_GIVEN: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
)


def paths_of(value: JsonValue) -> Iterator[Path]:
    """Return the paths of all parts of an object that may be anything."""
    return (path for path in _all_paths(value) if path not in _GIVEN)


def _all_paths(value: JsonValue, path: Path = ()) -> Iterator[Path]:
    parts: list[tuple[str | int, JsonValue]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    for step, inner in parts:
        yield (*path, step)
        yield from _all_paths(inner, (*path, step))


def with_value(whole: JsonObject, path: Path, value: JsonValue) -> JsonObject:
    """Return the object with another value at a path."""
    changed = copy.deepcopy(whole)
    inner: JsonValue = changed
    for step in path[:-1]:
        inner = inner[step]  # type: ignore[index]  # the path is one of its own
    inner[path[-1]] = value  # type: ignore[index]  # the same
    return changed


_METADATA: JsonObject = {
    "name": "digits", "namespace": "team", "uid": "u1", "resourceVersion": "7", "generation": 2,
    "creationTimestamp": "2026-11-21T12:00:00Z", "labels": {"a": "b"},
    "deletionTimestamp": "2026-11-21T12:00:00Z",
}  # fmt: skip
_MOMENT = "2026-11-21T12:00:00Z"
_ATTEMPT: JsonObject = {
    "number": 1, "generation": 1, "specHash": "h", "rayJob": "digits-1", "jobId": "digits-u-1",
    "rayCluster": "trainshed", "headIdentity": "p/c", "startTime": _MOMENT, "exitCode": 1,
    "resumedFrom": {"checkpoint": "c", "epoch": 1, "step": 2}, "time": {"training": 1.5},
}  # fmt: skip


RESERVATION: JsonObject = {
    "count": 1, "group": "cpu", "cpu": 1.5, "gpu": 1.0, "memory": 8e9, "dataCpus": 1.0,
    "dataGroup": "cpu", "since": _MOMENT, "graceSeconds": 60,
}  # fmt: skip


def make_raw_run() -> JsonObject:
    """Return a run in the middle of its first attempt."""
    document = make_document(
        workers={"count": 2, "resources": {"cpu": 1, "gpu": 1, "memory": "1Gi"}},
        data={"datasets": {"train": {"read": {"format": "parquet", "path": "rows"}}}},
        cluster={"shared": "trainshed"},
        failurePolicy={"rules": [{"action": "Fail", "exitCodes": [3], "logPattern": "x*y"}]},
        config={"a": [1, {"b": 2.5}]},
        ttlSecondsAfterFinished=60,
        activeDeadlineSeconds=60,
    )
    condition: JsonObject = {
        "type": "Admitted", "status": "True", "reason": "Admitted", "message": "m",
        "lastTransitionTime": _MOMENT, "observedGeneration": 1,
    }  # fmt: skip
    status: JsonObject = {
        "phase": "Running",
        "phaseTime": _MOMENT,
        "attempt": 1,
        "attempts": [_ATTEMPT],
        "conditions": [condition],
        "failures": {"application": 1},
        "progress": {"step": 1, "steps": 2, "metrics": {"a": "1"}, "movedAt": _MOMENT},
        "time": {"queued": 1.0},
        "checkpoint": {"path": "p", "step": 1, "time": _MOMENT},
        "queue": {"position": 1, "reason": "r"},
        "result": {"metrics": {"a": "1"}},
    }
    return document | {"metadata": dict(_METADATA), "status": status}


def make_raw_job() -> JsonObject:
    """Return a RayJob that runs."""
    owner: JsonObject = {"uid": "u1", "controller": True, "name": "digits", "kind": "TrainingRun"}
    labels: JsonObject = {"trainshed.dev/run": "digits"}
    annotations: JsonObject = {"trainshed.dev/reservation": json.dumps(RESERVATION)}
    return {
        "metadata": _METADATA
        | {"ownerReferences": [owner], "labels": labels, "annotations": annotations},
        "spec": {
            "suspend": False, "jobId": "digits-u-1",
            "clusterSelector": {"ray.io/cluster": "trainshed"},
        },
        "status": {
            "jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "reason": "r",
            "message": "m" * 5000, "rayClusterName": "trainshed",
        },
    }  # fmt: skip


def make_raw_cluster() -> JsonObject:
    """Return a RayCluster whose groups say what they have in each of the ways there are."""

    def group(name: str, **said: JsonValue) -> JsonObject:
        resources: JsonObject = {
            "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "requests": {"cpu": "500m"},
        }
        container: JsonObject = {"name": "ray", "resources": resources}
        template: JsonObject = {"spec": {"containers": [container]}}
        made: JsonObject = {
            "groupName": name, "replicas": 1, "maxReplicas": 2, "template": template,
        }  # fmt: skip
        return made | said

    labels: JsonObject = {"trainshed.dev/group": "gpu"}
    params: JsonObject = {"num-cpus": "4", "num-gpus": "1", "memory": "8000000000"}
    return {
        "metadata": dict(_METADATA),
        "spec": {
            "enableInTreeAutoscaling": True,
            "workerGroupSpecs": [
                group("cpu", labels=labels),
                group("params", rayStartParams=params),
                group("said", resources={"CPU": "4", "GPU": "1", "memory": "8Gi"}),
            ],
        },
        "status": {"state": "ready", "reason": "r"},
    }


def make_raw_pod() -> JsonObject:
    """Return a worker Pod whose Ray container ended once."""
    labels: JsonObject = {
        "ray.io/cluster": "trainshed", "ray.io/group": "cpu", "ray.io/node-type": "worker",
    }  # fmt: skip
    ended: JsonObject = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    waiting: JsonObject = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    status: JsonObject = {
        "name": "ray", "containerID": "c1", "state": waiting, "lastState": ended,
    }  # fmt: skip
    conditions: list[JsonValue] = [
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
    ]
    return {
        "metadata": _METADATA | {"labels": labels},
        "spec": {"nodeName": "n", "containers": [{"name": "ray"}]},
        "status": {
            "phase": "Failed", "reason": "Evicted", "message": "m", "conditions": conditions,
            "containerStatuses": [status],
        },
    }  # fmt: skip
