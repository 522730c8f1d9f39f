"""What the Pods of a RayCluster have for work, read from its spec as KubeRay and Ray do. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object
from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_controller.model import GroupView, Room

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject


def read_groups(spec: JsonObject) -> tuple[GroupView, ...]:
    """Return the worker groups of a RayClusterSpec; wanted: the most with autoscaling."""
    groups = spec.get("workerGroupSpecs")
    if not isinstance(groups, list):
        return ()
    autoscaling = spec.get("enableInTreeAutoscaling") is True
    return tuple(_read_group(as_object(item), autoscaling=autoscaling) for item in groups)


def _read_group(group: JsonObject, *, autoscaling: bool) -> GroupView:
    name = str(group.get("groupName", ""))
    label = as_object(group.get("labels")).get(NODE_GROUP_LABEL)
    count = group.get("maxReplicas" if autoscaling else "replicas")
    return GroupView(
        name,
        _read_room(group, name if label is None else str(label)),
        count if isinstance(count, int) else 0,
        labelled=label is not None,
    )


def _read_room(group: JsonObject, label: str) -> Room:
    """Return what a Pod offers: what the group says outright, else the limits of its container."""
    resources = _container_resources(group)
    said = as_object(group.get("resources")) or as_object(group.get("rayStartParams"))
    cpu, gpu, memory = (
        _number(said, *names)
        for names in (("CPU", "num-cpus"), ("GPU", "num-gpus"), ("memory", "memory"))
    )
    if cpu is None:
        text = resources.get("cpu")
        cpu = float(math.ceil(parse_cores(str(text)))) if text is not None else 0.0
    if gpu is None:
        gpu = sum(parse_cores(str(v)) for k, v in resources.items() if k.endswith("gpu"))
    if memory is None:
        text = resources.get("memory")
        memory = float(parse_bytes(str(text))) if text is not None else math.inf
    return Room(label, cpu, gpu, memory)


def _container_resources(group: JsonObject) -> JsonObject:
    containers = as_object(as_object(group.get("template")).get("spec")).get("containers")
    first = as_object(containers[0]) if isinstance(containers, list) and containers else {}
    resources = as_object(first.get("resources"))
    return as_object(resources.get("requests")) | as_object(resources.get("limits"))


def _number(said: JsonObject, *names: str) -> float | None:
    for name in names:
        if name in said:
            return parse_cores(str(said[name]))
    return None
