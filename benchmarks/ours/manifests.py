"""Objects of the controller's benchmark, and the status that the controller writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.trainingrun import document

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.kuberay.resources import Manifest


def make_run(name: str) -> Manifest:
    """Return a TrainingRun of typical size."""
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["image", "label"]}
    decode: JsonValue = {"use": "trainshed.transforms:decode_image", "options": {"size": 8}}
    spec: Manifest = {
        "train": "trainshed.programs.vision:train",
        "config": {"model": "cnn", "imageSize": 8, "channels": 1},
        "epochs": 8,
        "batchSize": 64,
        "data": {"cpus": 1, "datasets": {"train": {"read": read, "transforms": [decode]}}},
        "workers": {"count": 2, "resources": {"cpu": 1}},
    }
    return document(spec, name)


def make_status(name: str) -> Manifest:
    """Return the status of a run before its first attempt starts."""
    condition: Manifest = {
        "observedGeneration": 1,
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "observedGeneration": 1,
        "phase": "Starting",
        "phaseTime": "2026-01-01T00:00:00Z",
        "startTime": "2026-01-01T00:00:00Z",
        "attempt": 1,
        "attempts": [
            {
                "number": 1,
                "generation": 1,
                "jobId": f"{name}-00000000-1",
                "rayCluster": "trainshed",
                "rayJob": f"{name}-1",
                "specHash": "0" * 64,
            }
        ],
        "conditions": [
            condition | {"type": "Accepted", "reason": "Valid"},
            condition | {"type": "Admitted", "reason": "Admitted"},
            condition | {"type": "Progressing", "reason": "Starting", "message": "attempt 1"},
        ],
        "time": {"goodput": "0.00", "queued": 1},
    }


def make_cluster() -> Manifest:
    """Return a RayCluster with enough capacity for all runs; it scales, so it counts as ready."""
    pod: JsonValue = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
    group: JsonValue = {
        "groupName": "cpu",
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 10_000,
        "rayStartParams": {},
        "resources": {"CPU": "8"},
        "template": pod,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "trainshed"},
        "spec": {
            "enableInTreeAutoscaling": True,
            "headGroupSpec": {"rayStartParams": {}, "template": pod},
            "workerGroupSpecs": [group],
        },
    }
