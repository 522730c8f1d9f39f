"""Every Pod that a release comes to have: its own, those of Jobs, and those that KubeRay makes.

KubeRay's part is imitated as far as Pod Security and network policies see it: labels and the
containers it adds (DefaultWorkerPodTemplate, BuildAutoscalerContainer, labelPod of release 1.7.0).
"""

import copy

from pydantic import JsonValue

from tests.chart.rendering import Object, at, of_kind, rows, table, text

INIT_RESOURCES: JsonValue = {
    "limits": {"cpu": "200m", "memory": "256Mi"},
    "requests": {"cpu": "200m", "memory": "256Mi"},
}


def expand_pods(objects: list[Object]) -> list[Object]:
    """Return all Pods as documents that an API server takes."""
    pods = [copy.deepcopy(pod) for pod in of_kind(objects, "Pod")]
    for kind in ("Job", "Deployment"):
        for owner in of_kind(objects, kind):
            pods.append(_pod(owner, table(owner, "spec", "template"), "pod", {}))
    for cluster in of_kind(objects, "RayCluster"):
        pods.append(_head(cluster))
        pods += [_worker(cluster, group) for group in rows(cluster, "spec", "workerGroupSpecs")]
    return pods


def containers_of(pod: Object) -> list[Object]:
    """Return the containers of a Pod, those of its start included."""
    return rows(pod, "spec", "initContainers") + rows(pod, "spec", "containers")


def _pod(owner: Object, template: Object, suffix: str, labels: dict[str, JsonValue]) -> Object:
    template = copy.deepcopy(template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **table(template, "metadata"),
            "name": f"{text(owner, 'metadata', 'name')}-{suffix}",
            "namespace": text(owner, "metadata", "namespace"),
            "labels": {**table(template, "metadata", "labels"), **labels},
        },
        "spec": table(template, "spec"),
    }


def _ray_labels(cluster: Object, node_type: str, group: str) -> dict[str, JsonValue]:
    name = text(cluster, "metadata", "name")
    return {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": name,
        "ray.io/node-type": node_type,
        "ray.io/group": group,
        "ray.io/identifier": f"{name}-{node_type}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def _head(cluster: Object) -> Object:
    head = table(cluster, "spec", "headGroupSpec")
    labels = _ray_labels(cluster, "head", "headgroup") | table(head, "labels")
    pod = _pod(cluster, table(head, "template"), "head", labels)
    ray = rows(pod, "spec", "containers")[0]
    if at(cluster, "spec", "enableInTreeAutoscaling") is True:
        options = table(cluster, "spec", "autoscalerOptions")
        containers = at(pod, "spec", "containers")
        assert isinstance(containers, list)
        autoscaler: Object = {
            "name": "autoscaler",
            "image": ray["image"],
            "command": ["/bin/bash", "-c", "--"],
            "args": ["ray kuberay-autoscaler"],
        }
        for field in ("imagePullPolicy", "resources", "securityContext", "volumeMounts"):
            if field in options:
                autoscaler[field] = options[field]
        containers.append(autoscaler)
    return pod


def _worker(cluster: Object, group: Object) -> Object:
    name = text(group, "groupName")
    labels = _ray_labels(cluster, "worker", name) | table(group, "labels")
    pod = _pod(cluster, table(group, "template"), f"{name}-worker", labels)
    ray = rows(pod, "spec", "containers")[0]
    waiting: Object = {
        "name": "wait-gcs-ready",
        "image": ray["image"],
        "imagePullPolicy": ray["imagePullPolicy"],
        "command": ["/bin/bash", "-c", "--"],
        "args": ["ray health-check"],
        "resources": INIT_RESOURCES,
    }
    for field in ("securityContext", "env", "volumeMounts"):
        waiting[field] = copy.deepcopy(ray[field])
    table(pod, "spec")["initContainers"] = [waiting]
    return pod
