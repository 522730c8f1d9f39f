"""Every Pod that a release comes to have: its own, those of Jobs, and those that KubeRay makes."""

import copy

from tests.chart.rendering import Object, at, of_kind, rows, table, text
from tests.kuberay.pods import render_head_pod, render_worker_pod
from tests.kuberay.rayresources import RayCluster


def expand_pods(objects: list[Object]) -> list[Object]:
    """Return all Pods as documents that an API server takes."""
    pods = [copy.deepcopy(pod) for pod in of_kind(objects, "Pod")]
    for kind in ("Job", "Deployment"):
        for owner in of_kind(objects, kind):
            metadata = {
                **table(owner, "spec", "template", "metadata"),
                "name": f"{text(owner, 'metadata', 'name')}-pod",
                "namespace": text(owner, "metadata", "namespace"),
            }
            spec = copy.deepcopy(table(owner, "spec", "template", "spec"))
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    for cluster in of_kind(objects, "RayCluster"):
        pods += _ray_pods(cluster)
    return pods


def containers_of(pod: Object) -> list[Object]:
    """Return the containers of a Pod, those of its start included."""
    return rows(pod, "spec", "initContainers") + rows(pod, "spec", "containers")


def _ray_pods(manifest: Object) -> list[Object]:
    cluster = RayCluster.model_validate(manifest)
    head = render_head_pod(cluster).manifest()
    if at(manifest, "spec", "enableInTreeAutoscaling") is True:
        containers = at(head, "spec", "containers")
        assert isinstance(containers, list)
        containers.append(_autoscaler(manifest, image=rows(head, "spec", "containers")[0]["image"]))
    workers = [
        render_worker_pod(cluster, group, 0).manifest() for group in cluster.spec.worker_group_specs
    ]
    for pod in (head, *workers):
        metadata = table(pod, "metadata")
        metadata["name"] = f"{metadata.pop('generateName')}0"
        del metadata["ownerReferences"]  # to a RayCluster that no API server has
        pod |= {"apiVersion": "v1", "kind": "Pod"}
    return [head, *workers]


def _autoscaler(cluster: Object, image: object) -> Object:
    """Return the container beside the head, as KubeRay's BuildAutoscalerContainer makes it."""
    options = table(cluster, "spec", "autoscalerOptions")
    container: Object = {
        "name": "autoscaler",
        "image": str(image),
        "command": ["/bin/bash", "-c", "--"],
        "args": ["ray kuberay-autoscaler"],
    }
    for field in ("imagePullPolicy", "resources", "securityContext", "volumeMounts"):
        if field in options:
            container[field] = options[field]
    return container
