"""What Pods say of themselves: why one does not start, or how it ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object, objects, text
from trainshed_api.pod_trouble import (
    containers_of,
    how_ended,
    last_end,
    pod_title,
    start_trouble,
)

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
        has_failed: whether its phase is Failed: no container of it runs again.
        trouble: which Pod it is, and why it does not start, or how its container ended; empty if
            nothing is wrong.
        is_waiting: whether the trouble may pass.
        waits_for_head: whether the trouble is that the Ray head does not answer it.
        time: when the Pod or its container ended, in seconds since 1970.
        container: that ended.
    """

    name: str
    is_head: bool
    node: str
    is_ready: bool
    has_failed: bool = False
    trouble: str = ""
    is_waiting: bool = False
    waits_for_head: bool = False
    time: float | None = None
    container: str = ""

    @property
    def has_ended(self) -> bool:
        """Return whether a container of it ended."""
        return bool(self.container)

    def was_over_by(self, moment: float) -> bool:
        """Return whether its trouble ended before a moment: it is ready again, or has failed."""
        is_past = self.time is not None and self.time < moment
        return is_past and (self.is_ready or self.has_failed)

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
        has_failed=text(status, "phase") == "Failed",
    )
    if pod.has_failed and (reason := text(status, "reason")):
        # The kubelet refused or ended it: for pressure, a shutdown, a device that is missing.
        said = f"{pod_title(raw)}: {reason}: {text(status, 'message')}"
        # A Pod that the kubelet refused was never ready or not.
        unready = text(conditions.get("Ready", {}), "lastTransitionTime")
        return replace(pod, trouble=said, time=_seconds(unready or text(status, "startTime")))
    trouble, containers = start_trouble(raw), containers_of(raw)
    if trouble and trouble.reason != "ContainerCrashes":
        return replace(pod, trouble=trouble.message, is_waiting=trouble.reason == "Unschedulable")
    for container in containers:
        ended = last_end(container)
        if ended and ended.get("exitCode") != 0:
            said = f"{pod_title(raw)}: {how_ended(raw, container)}"
            when, name = _seconds(text(ended, "finishedAt")), text(container, "name")
            return replace(pod, trouble=said, time=when, container=name)
    if trouble:
        return replace(pod, trouble=trouble.message)
    if pod.is_ready:
        return pod
    return _not_ready(raw, pod, events, now)


def _not_ready(
    raw: JsonObject, pod: PodState, events: Sequence[JsonObject], now: datetime
) -> PodState:
    """Return a Pod that starts; with what holds it up, if that takes long."""
    metadata = as_object(raw.get("metadata"))
    created = _seconds(text(metadata, "creationTimestamp"))
    if created is None or now.timestamp() - created < _SOON_SECONDS:
        return pod
    about = [
        " ".join(text(event, "message").split())
        for event in events
        if text(as_object(event.get("involvedObject")), "uid") == text(metadata, "uid")
    ]
    states = {text(each, "name"): as_object(each.get("state")) for each in containers_of(raw)}
    waits_for_head = "running" in states.get(_WAITS_FOR_HEAD, {})
    if waits_for_head:
        trouble = (
            "cannot reach the Ray head: its DNS name or port 6379 does not answer. A "
            "NetworkPolicy may block it"
        )
    else:
        waits = (text(as_object(state.get("waiting")), "reason") for state in states.values())
        trouble = ": ".join(("is not ready", *islice(filter(None, waits), 1)))
    said = ": ".join((pod_title(raw), trouble, *about[-1:]))
    return replace(pod, trouble=said, is_waiting=True, waits_for_head=waits_for_head)


def _seconds(written: str) -> float | None:
    """Return a moment as seconds since 1970; None if there is none."""
    return datetime.fromisoformat(written).timestamp() if written else None
