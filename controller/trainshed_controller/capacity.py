"""What the Pods of a RayCluster have for work, read from its spec as KubeRay and Ray do. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object
from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.quantity import parse_quantity
from trainshed_controller.model import GroupView, Room

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainshed_api.json_object import JsonObject

# No Pod has more, in whatever unit, and no group more Pods: both are the API server's own bounds.
_MOST, _MOST_PODS = float(2**63 - 1), 2**31 - 1
# KubeRay gives this variable to the Ray container alone (common/pod.go, setContainerEnvVars).
START_COMMAND = "KUBERAY_GEN_RAY_START_CMD"
_START_AMOUNT = re.compile(r"--(num-cpus|num-gpus|memory)[= ](\S+)")
# KubeRay's IsGPUResourceKey (ray-operator/controllers/ray/utils/resources.go).
_GPU = re.compile(r"gpu$|nvidia\.com/mig-\d+g\.\d+gb$")


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
    offer = _template_offer(group)
    return GroupView(
        name,
        _read_room(group, name if label is None else str(label), offer),
        min(max(0, count), _MOST_PODS) if isinstance(count, int) else 0,
        labelled=label is not None,
        offer=offer,
    )


def _read_room(group: JsonObject, label: str, offer: Room | None) -> Room:
    """Return what a Pod offers: what the group says outright, else the limits of its container.

    What is no number counts as not said. KubeRay leaves `num-cpus: $CPUS` to the shell of the
    container, and where nothing is said it writes the container's limits itself.
    """
    offered = offer or Room(label, 0.0, 0.0, math.inf)
    said = as_object(group.get("resources")) or as_object(group.get("rayStartParams"))
    cpu, gpu, memory = (
        _number(said, *names)
        for names in (("CPU", "num-cpus"), ("GPU", "num-gpus"), ("memory", "memory"))
    )
    return Room(
        label,
        offered.cpu if cpu is None else cpu,
        offered.gpu if gpu is None else gpu,
        offered.memory if memory is None else memory,
    )


def _template_offer(group: JsonObject) -> Room | None:
    containers = as_object(as_object(group.get("template")).get("spec")).get("containers")
    return (
        read_offer(as_object(containers[0]))
        if isinstance(containers, list) and containers
        else None
    )


def read_offer(container: JsonObject, start: str = "") -> Room | None:
    """Return what a container's limits, or else its requests, let Ray use; None without any.

    start: the command that starts Ray in a Pod. KubeRay writes it before admission, which may
    change the resources: what it says wins.
    """
    declared = as_object(container.get("resources"))
    resources = as_object(declared.get("requests")) | as_object(declared.get("limits"))
    said: JsonObject = dict(_START_AMOUNT.findall(start))
    if not resources and not said:
        return None
    cpu, gpu, memory = (_number(said, name) for name in ("num-cpus", "num-gpus", "memory"))
    # KubeRay passes the first GPU resource to Ray and ignores others.
    gpus = (_amount(resources[key]) for key in sorted(resources) if _GPU.search(key))
    limit = _amount(resources.get("memory"))
    return Room(
        "",
        float(math.ceil(_amount(resources.get("cpu")) or 0.0)) if cpu is None else cpu,
        next((amount for amount in gpus if amount), 0.0) if gpu is None else gpu,
        (math.inf if limit is None else float(math.ceil(limit))) if memory is None else memory,
    )


def _number(said: JsonObject, *names: str) -> float | None:
    return next((_amount(said[name]) for name in names if name in said), None)


def _amount(value: JsonValue) -> float | None:
    """Return what a quantity amounts to; None for what is none, or none that there can be."""
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    try:
        amount = float(parse_quantity(str(value)))
    except ValueError:
        return None
    return amount if 0.0 <= amount <= _MOST else None
