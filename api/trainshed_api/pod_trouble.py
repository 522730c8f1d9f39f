"""Why Pods do not start, and how their containers ended. Pure.

The controller writes these sentences into a status, and `trainshed why` prints them.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from trainshed_api.json_object import JsonObject, as_object, objects, text
from trainshed_api.names import NO_IMAGE

IMAGE_PULL_FAILED: Final = "ImagePullFailed"
# Between two tries the kubelet says that it waits; before Kubernetes 1.32 without saying why.
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: ErrImagePull)?(: )?')
_LONGEST_ANSWER = 1000


class PodTrouble(NamedTuple):
    """Why Pods do not start: in one word, and for people."""

    reason: Literal[
        "ImagePullFailed",
        "ContainerConfigError",
        "ContainerCrashes",
        "PodsRefused",
        "Unschedulable",
    ]
    message: str


def start_trouble(pod: JsonObject) -> PodTrouble | None:
    """Return why a Pod does not start, if that is known and does not pass by itself."""
    status, title = as_object(pod.get("status")), pod_title(pod)
    for container in containers_of(pod):
        waiting = as_object(as_object(container.get("state")).get("waiting"))
        reason, said = text(waiting, "reason"), text(waiting, "message")
        if reason in NO_IMAGE:
            answer = _BACK_OFF.sub("", said)[:_LONGEST_ANSWER]
            image = f"image {text(container, 'image')} cannot be pulled"
            return PodTrouble(IMAGE_PULL_FAILED, ": ".join(filter(None, (title, image, answer))))
        if reason == "CreateContainerConfigError":
            return PodTrouble("ContainerConfigError", f"{title}: {said or reason}")
        if reason == "CrashLoopBackOff":
            return PodTrouble("ContainerCrashes", f"{title}: {how_ended(pod, container)}")
    conditions = {text(each, "type"): each for each in objects(status.get("conditions"))}
    scheduled = conditions.get("PodScheduled", {})
    if text(scheduled, "reason") == "Unschedulable":
        message = f"{title}: no node accepts it: {text(scheduled, 'message')}"
        return PodTrouble("Unschedulable", message)
    return None


def refused_pods(cluster: JsonObject) -> PodTrouble | None:
    """Return why the API server does not take the Pods of a RayCluster."""
    conditions = objects(as_object(cluster.get("status")).get("conditions"))
    failure = next((each for each in conditions if text(each, "type") == "ReplicaFailure"), {})
    if text(failure, "status") == "False" or not text(failure, "reason").startswith("FailedCreate"):
        return None
    # KubeRay writes its reason on a line before the error of the API server.
    said = " ".join(text(failure, "message").split())[:_LONGEST_ANSWER]
    name = text(as_object(cluster.get("metadata")), "name")
    return PodTrouble("PodsRefused", f"RayCluster {name}: the API server refuses its Pods: {said}")


def pod_title(pod: JsonObject) -> str:
    """Return which Pod it is, and on which node."""
    name, node = (
        text(as_object(pod.get("metadata")), "name"),
        text(as_object(pod.get("spec")), "nodeName"),
    )
    return f"Pod {name} on node {node}" if node else f"Pod {name}"


def containers_of(pod: JsonObject) -> list[JsonObject]:
    """Return the statuses of a Pod's containers; init containers, which start first, come first."""
    status = as_object(pod.get("status"))
    kinds = ("initContainerStatuses", "containerStatuses")
    return [each for kind in kinds for each in objects(status.get(kind))]


def last_end(container: JsonObject) -> JsonObject:
    """Return how the status of a container says that it ended last; it may run again."""
    ends = (
        as_object(as_object(container.get(name)).get("terminated"))
        for name in ("state", "lastState")
    )
    return next(filter(None, ends), {})


def how_ended(pod: JsonObject, container: JsonObject) -> str:
    """Return in words how a container of a Pod ended last."""
    name, ended = text(container, "name"), last_end(container)
    if text(ended, "reason") == "OOMKilled":
        limit = _memory_limit(pod, name)
        most = f", of which it may use {limit}" if limit else ""
        return f"container {name} ran out of memory{most} (OOMKilled)"
    waits = as_object(as_object(container.get("state")).get("waiting"))
    again = " again and again" if text(waits, "reason") else ""
    how = f"{text(ended, 'reason') or 'Error'}, exit code {ended.get('exitCode', '?')}"
    return f"container {name} ends{again}: {how}"


def _memory_limit(pod: JsonObject, container: str) -> str:
    spec = as_object(pod.get("spec"))
    declared = [*objects(spec.get("initContainers")), *objects(spec.get("containers"))]
    mine = next((each for each in declared if text(each, "name") == container), {})
    return text(as_object(as_object(mine.get("resources")).get("limits")), "memory")
