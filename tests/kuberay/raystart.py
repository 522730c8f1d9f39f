"""The `ray start` command line of a node, as KubeRay puts it together."""

import json
import math
from collections.abc import Mapping

from tests.kuberay.names import AGENT_PORT, GCS_PORT, METRICS_PORT
from tests.kuberay.resources import Quantity, Requirements
from trainshed_api.quantity import parse_quantity

# Options of `ray start` that take "true" and "false" as values; of any other, "true" means the
# bare option and "false" leaves it out.
_BOOLEAN_VALUES = {"log-color", "include-dashboard", "include-log-monitor"}


def head_port(head_params: Mapping[str, str]) -> str:
    """Return the port that workers find the head at."""
    return head_params.get("port", str(GCS_PORT))


def render_ray_start(
    params: Mapping[str, str],
    asked: Requirements,
    *,
    resources: Mapping[str, str],
    labels: Mapping[str, str],
    address: str | None,
) -> str:
    """Return the command line; a head has no address to join.

    `resources` and `labels` are the group's own; what the group does not say of CPUs, memory and
    GPUs is read from the limits of the container.
    """
    full = dict(params) | _group_resources(resources)
    if labels:
        full["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    if address is None:
        full.setdefault("dashboard-host", "0.0.0.0")
    else:
        full.setdefault("address", address)
    full.setdefault("metrics-export-port", str(METRICS_PORT))
    full.setdefault("dashboard-agent-listen-port", str(AGENT_PORT))
    full["block"] = "true"
    full = _container_resources(asked) | full
    return ("ray start --head " if address is None else "ray start ") + _options(full)


def is_gpu(resource: str) -> bool:
    """Return whether a resource of Kubernetes counts as Ray's GPU."""
    return resource.endswith("gpu") or resource.startswith("nvidia.com/mig-")


def whole(quantity: Quantity) -> int:
    """Return the quantity rounded up, as KubeRay tells it to Ray."""
    return math.ceil(parse_quantity(str(quantity)))


def _group_resources(resources: Mapping[str, str]) -> dict[str, str]:
    params: dict[str, str] = {}
    custom: dict[str, float] = {}
    for name, quantity in resources.items():
        lower = name.lower()
        if lower == "cpu":
            params["num-cpus"] = str(whole(quantity))
        elif lower == "memory":
            params["memory"] = str(whole(quantity))
        elif is_gpu(lower):
            params["num-gpus"] = str(whole(quantity))
        else:
            amount = float(parse_quantity(quantity))
            custom[name] = int(amount) if amount.is_integer() else amount
    if custom:
        params["resources"] = f"'{json.dumps(custom, sort_keys=True, separators=(',', ':'))}'"
    return params


def _container_resources(asked: Requirements) -> dict[str, str]:
    params = {}
    if cpus := whole(asked.limits.get("cpu", 0)) or whole(asked.requests.get("cpu", 0)):
        params["num-cpus"] = str(cpus)
    if memory := whole(asked.limits.get("memory", 0)):
        params["memory"] = str(memory)
    gpus = [whole(asked.limits[name]) for name in sorted(asked.limits) if is_gpu(name)]
    if count := next(filter(None, gpus), 0):
        params["num-gpus"] = str(count)
    return params


def _options(params: Mapping[str, str]) -> str:
    flags = ""
    for option, value in sorted(params.items()):
        if value.lower() in {"true", "false"} and option not in _BOOLEAN_VALUES:
            flags += f" --{option} " if value.lower() == "true" else ""
        else:
            flags += f" --{option}={value} "
    return flags
