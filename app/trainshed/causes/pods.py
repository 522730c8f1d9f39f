"""What Pods say of themselves: why one does not start, or how it ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object, objects, text
from trainshed_api.names import NO_IMAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed_api.json_object import JsonObject

# KubeRay's init container of workers, which waits for the head.
_WAITS_FOR_HEAD = "wait-gcs-ready"
# A Pod that is not ready for longer does not become ready by itself.
_SOON_SECONDS = 60.0


@dataclass(frozen=True)
class PodState:
    """A Pod of a RayCluster.

    Args:
        name: of it.
        is_head: whether the Ray head runs in it.
        node: on which it runs.
        is_ready: whether it serves.
        trouble: why it does not start, or how its container ended; empty if nothing is wrong.
        is_waiting: whether the trouble may pass.
        time: when the container ended, in seconds since 1970.
        container: that ended.
    """

    name: str
    is_head: bool
    node: str
    is_ready: bool
    trouble: str = ""
    is_waiting: bool = False
    time: float | None = None
    container: str = ""

    @property
    def has_ended(self) -> bool:
        """Return whether a container of it ended."""
        return bool(self.container)

    @property
    def healthy(self) -> PodState:
        """Return the Pod without its trouble."""
        return replace(self, trouble="", is_waiting=False, time=None, container="")


def read_pod(raw: JsonObject, events: Sequence[JsonObject], now: datetime) -> PodState:
    """Return a Pod as the API server has it, with what its events say."""
    metadata, spec, status = (as_object(raw.get(name)) for name in ("metadata", "spec", "status"))
    labels = as_object(metadata.get("labels"))
    conditions = {text(each, "type"): each for each in objects(status.get("conditions"))}
    pod = PodState(
        name=text(metadata, "name"),
        is_head=text(labels, "ray.io/node-type") == "head",
        node=text(spec, "nodeName"),
        is_ready=text(conditions.get("Ready", {}), "status") == "True",
    )
    if text(status, "reason") == "Evicted":
        return replace(pod, trouble=f"was evicted: {text(status, 'message')}")
    limits = {
        text(each, "name"): text(
            as_object(as_object(each.get("resources")).get("limits")), "memory"
        )
        for each in objects(spec.get("containers"))
    }
    containers = [
        *objects(status.get("initContainerStatuses")),
        *objects(status.get("containerStatuses")),
    ]
    for container in containers:
        if said := _waiting(container):
            return replace(pod, trouble=said)
    for container in containers:
        name = text(container, "name")
        if ended := _terminated(container, limits.get(name, "")):
            how, when = ended
            return replace(pod, trouble=how, time=when, container=name)
    scheduled = conditions.get("PodScheduled", {})
    if text(scheduled, "reason") == "Unschedulable":
        trouble = f"no node accepts it: {text(scheduled, 'message')}"
        return replace(pod, trouble=trouble, is_waiting=True)
    if pod.is_ready:
        return pod
    return _not_ready(pod, containers, metadata, events, now)


def _waiting(container: JsonObject) -> str:
    """Return why a container does not start, if that does not pass by itself."""
    waiting = as_object(as_object(container.get("state")).get("waiting"))
    reason, said = text(waiting, "reason"), text(waiting, "message")
    if reason in NO_IMAGE:
        return f"image {text(container, 'image')} cannot be pulled: {said or reason}"
    return said or reason if reason == "CreateContainerConfigError" else ""


def _terminated(container: JsonObject, limit: str) -> tuple[str, float | None] | None:
    """Return how a container ended with an error, and when; it may have started again."""
    state = as_object(container.get("state"))
    ended = as_object(state.get("terminated")) or as_object(
        as_object(container.get("lastState")).get("terminated")
    )
    code, reason = ended.get("exitCode"), text(ended, "reason")
    if not ended or code == 0:
        return None
    finished = text(ended, "finishedAt")
    when = datetime.fromisoformat(finished).timestamp() if finished else None
    if reason == "OOMKilled":
        most = f", of which it may use {limit}" if limit else ""
        return f"container {text(container, 'name')} ran out of memory{most} (OOMKilled)", when
    again = " again and again" if text(as_object(state.get("waiting")), "reason") else ""
    how = f"{reason or 'Error'}, exit code {code}"
    return f"container {text(container, 'name')} ends{again}: {how}", when


def _not_ready(
    pod: PodState,
    containers: Sequence[JsonObject],
    metadata: JsonObject,
    events: Sequence[JsonObject],
    now: datetime,
) -> PodState:
    """Return a Pod that starts; with what holds it up, if that takes long."""
    created = text(metadata, "creationTimestamp")
    age = (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0
    if age < _SOON_SECONDS:
        return pod
    about = [
        " ".join(text(event, "message").split())
        for event in events
        if text(as_object(event.get("involvedObject")), "uid") == text(metadata, "uid")
    ]
    running = next((each for each in containers if "running" in as_object(each.get("state"))), {})
    if text(running, "name") == _WAITS_FOR_HEAD:
        trouble = (
            "cannot reach the Ray head: its DNS name or port 6379 does not answer. A "
            "NetworkPolicy may block it"
        )
    else:
        trouble = "is not ready"
    said = f"{trouble}: {about[-1]}" if about else trouble
    return replace(pod, trouble=said, is_waiting=True)
