"""What the Pods of a RayCluster have for work, read from its spec as KubeRay and Ray do. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object, objects
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
# Names of amounts in rayStartParams and in `resources` of a group; the latter win.
_FIELDS = {"num-cpus": "cpu", "num-gpus": "gpu", "memory": "memory", "CPU": "cpu", "GPU": "gpu"}


def read_groups(spec: JsonObject) -> tuple[GroupView, ...]:
    """Return the worker groups of a RayClusterSpec; wanted: the most with autoscaling."""
    autoscaling = spec.get("enableInTreeAutoscaling") is True
    groups = objects(spec.get("workerGroupSpecs"))
    return tuple(_read_group(group, autoscaling=autoscaling) for group in groups)


def _read_group(group: JsonObject, *, autoscaling: bool) -> GroupView:
    name = str(group.get("groupName", ""))
    label = as_object(group.get("labels")).get(NODE_GROUP_LABEL)
    count = group.get("maxReplicas" if autoscaling else "replicas")
    pod = as_object(as_object(group.get("template")).get("spec"))
    offer = read_offer(next(iter(objects(pod.get("containers"))), {}))
    # What the group says outright wins over the limits of its container.
    said = as_object(group.get("resources")) or as_object(group.get("rayStartParams"))
    limits = offer or Room("", 0.0, 0.0, math.inf)
    return GroupView(
        name,
        _with_amounts(replace(limits, group=name if label is None else str(label)), said),
        min(max(0, count), _MOST_PODS) if isinstance(count, int) else 0,
        labelled=label is not None,
        offer=offer,
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
    # KubeRay passes the first GPU resource to Ray and ignores others.
    gpus = (_amount(resources[key]) for key in sorted(resources) if _GPU.search(key))
    limit = _amount(resources.get("memory"))
    limits = Room(
        "",
        float(math.ceil(_amount(resources.get("cpu")) or 0.0)),
        next((amount for amount in gpus if amount), 0.0),
        math.inf if limit is None else float(math.ceil(limit)),
    )
    return _with_amounts(limits, said)


def _with_amounts(limits: Room, said: JsonObject) -> Room:
    """Return the amounts that are said for Ray, and for what is not said the limits.

    What is no number counts as not said: KubeRay leaves `num-cpus: $CPUS` to the shell of the
    container, and where nothing is said it writes the container's limits itself.
    """
    amounts = ((field, _amount(said.get(name))) for name, field in _FIELDS.items())
    told = {field: amount for field, amount in amounts if amount is not None}
    return Room(
        limits.group,
        told.get("cpu", limits.cpu),
        told.get("gpu", limits.gpu),
        told.get("memory", limits.memory),
    )


def _amount(value: JsonValue) -> float | None:
    """Return what a quantity amounts to; None for what is none, or none that there can be."""
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    try:
        amount = float(parse_quantity(str(value)))
    except ValueError:
        return None
    return amount if 0.0 <= amount <= _MOST else None
