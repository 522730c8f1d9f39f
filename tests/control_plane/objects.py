"""The objects of a world: its RayCluster, classes of clusters, and what the chart gives us."""

import copy
import json

from pydantic import JsonValue

from tests.kuberay.api import SECRETS, Kind
from trainshed_api import names

Object = dict[str, JsonValue]
RUNS = Kind(f"/apis/{names.API_VERSION}", names.PLURAL)
NAMESPACES = Kind("/api/v1", "namespaces")
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
# What an account with its rights consists of.
ACCOUNT_KINDS = {
    "ServiceAccount": Kind("/api/v1", "serviceaccounts"),
    "Secret": SECRETS,
    "Lease": Kind("/apis/coordination.k8s.io/v1", "leases"),
    "Role": Kind(_RBAC, "roles"),
    "RoleBinding": Kind(_RBAC, "rolebindings"),
}

CLUSTER: Object = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "trainshed"},
    "spec": {
        "rayVersion": "2.60.0",
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0"},
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "ray-head", "image": "ray:1"}],
                }
            },
        },
        "workerGroupSpecs": [
            {
                "groupName": "cpu",
                "replicas": 2,
                "minReplicas": 0,
                "maxReplicas": 2,
                "labels": {"trainshed.dev/group": "cpu"},
                "rayStartParams": {},
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "ray-worker",
                                "image": "ray:1",
                                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            }
                        ],
                    }
                },
            }
        ],
    },
}


def make_wide_cluster() -> Object:
    """Return a RayCluster `wide` of two Pods with three CPUs each."""
    text = json.dumps(CLUSTER).replace('"name": "trainshed"', '"name": "wide"')
    found: Object = json.loads(text.replace('"cpu": "1"', '"cpu": "3"'))
    return found


def make_classes() -> Object:
    """Return the class `default`: the shared cluster's spec without a worker."""
    spec = copy.deepcopy(CLUSTER["spec"])
    assert isinstance(spec, dict)
    groups = spec["workerGroupSpecs"]
    assert isinstance(groups, list)
    for group in groups:
        assert isinstance(group, dict)
        group |= {"replicas": 0, "maxReplicas": 4}
    return {"default": spec}


def make_run(name: str, *, labels: JsonValue = None, **spec: JsonValue) -> Object:
    """Return a TrainingRun for one worker with one CPU, such as make_run("a", suspend=True)."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"train": "my_module:train", "data": {"cpus": 1}, **spec},
    }
