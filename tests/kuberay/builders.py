"""The only place where RayClusters and RayJobs for tests are born."""

from pydantic import JsonValue

from tests.kuberay.names import API_VERSION, LABEL_CLUSTER
from tests.kuberay.resources import Manifest

IMAGE = "example/app:1"


def make_template(*, restart_policy: str = "Never", **container: JsonValue) -> Manifest:
    """Return the Pod template of a group, such as make_template(resources={...})."""
    ray: Manifest = {"name": "ray", "image": IMAGE, **container}
    return {"spec": {"restartPolicy": restart_policy, "containers": [ray]}}


def make_group(name: str = "cpu", replicas: int = 1, **fields: JsonValue) -> Manifest:
    """Return a group of workers."""
    group: Manifest = {"groupName": name, "replicas": replicas, "minReplicas": 0, "maxReplicas": 9}
    return group | {"rayStartParams": {}, "template": make_template()} | fields


def make_cluster_spec(
    *groups: Manifest, head: Manifest | None = None, **fields: JsonValue
) -> Manifest:
    """Return what a RayCluster asks for: a head without CPUs for work, and a worker."""
    head_group: Manifest = {"rayStartParams": {"num-cpus": "0"}, "template": make_template()}
    workers: list[JsonValue] = [*(groups or (make_group(),))]
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": head_group | (head or {}),
        "workerGroupSpecs": workers,
        **fields,
    }


def make_cluster(
    name: str = "shared", spec: Manifest | None = None, **annotations: str
) -> Manifest:
    """Return a RayCluster; annotations are given without their prefix `ray.io/`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "annotations": {
                f"ray.io/{key.replace('_', '-')}": value for key, value in annotations.items()
            },
        },
        "spec": spec or make_cluster_spec(),
    }


def make_job(
    name: str = "digits-1", cluster: str | None = "shared", **fields: JsonValue
) -> Manifest:
    """Return a RayJob on that cluster, or with a cluster of its own where that is None."""
    place: Manifest = (
        {"clusterSelector": {LABEL_CLUSTER: cluster}}
        if cluster
        else {"rayClusterSpec": make_cluster_spec(), "shutdownAfterJobFinishes": True}
    )
    spec: Manifest = {"entrypoint": "python train.py", "submissionMode": "HTTPMode"}
    return {
        "apiVersion": API_VERSION,
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": spec | place | fields,
    }
