"""What the Pods of a RayCluster have for work, read from its spec as KubeRay and Ray do. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_controller.model import GroupView, Room

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainshed_controller.model import JsonObject


def read_groups(spec: JsonObject) -> tuple[GroupView, ...]:
    """Return the worker groups of a RayClusterSpec; wanted: the most with autoscaling."""
    groups = spec.get("workerGroupSpecs")
    if not isinstance(groups, list):
        return ()
    autoscaling = spec.get("enableInTreeAutoscaling") is True
    return tuple(_read_group(dig(item), autoscaling=autoscaling) for item in groups)


def _read_group(group: JsonObject, *, autoscaling: bool) -> GroupView:
    name = str(group.get("groupName", ""))
    label = dig(group.get("labels")).get(NODE_GROUP_LABEL, name)
    count = group.get("maxReplicas" if autoscaling else "replicas")
    return GroupView(name, _read_room(group, str(label)), count if isinstance(count, int) else 0)


def _read_room(group: JsonObject, label: str) -> Room:
    """Return what a Pod offers: what the group says outright, else the limits of its container."""
    resources = _container_resources(group)
    said = dig(group.get("resources")) or dig(group.get("rayStartParams"))
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
    containers = dig(dig(group.get("template")).get("spec")).get("containers")
    first = dig(containers[0]) if isinstance(containers, list) and containers else {}
    resources = dig(first.get("resources"))
    return dig(resources.get("requests")) | dig(resources.get("limits"))


def _number(said: JsonObject, *names: str) -> float | None:
    for name in names:
        if name in said:
            return parse_cores(str(said[name]))
    return None


def dig(value: JsonValue) -> JsonObject:
    """Return the object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}
