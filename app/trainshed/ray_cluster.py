"""Ray on this machine for one run, or the cluster that is there already."""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, TextIO

from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.quantity import parse_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.v1alpha1 import TrainingRunSpec

# Ray's controller looks after its workers every 2 s by default, and reports wait for that look
# (ray-project/ray PR 56718). A look costs about a millisecond a worker.
SETTINGS = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

# Each of these is an actor of its own, a second of two cores at every start. The state actor serves the
# dashboard, which is not started here; the watcher looks for nodes that are drained.
NOT_ON_ONE_MACHINE = {
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}


def in_cluster() -> bool:
    """Say whether this process was started inside a Ray cluster or pointed at one."""
    return bool(os.environ.get("RAY_ADDRESS"))


def start(spec: TrainingRunSpec) -> None:
    """Start Ray here with room for the workers and the data, or join the cluster that is there.

    The data's CPUs are logical ones on top of the machine's: Ray Data must never wait for Ray Train,
    and the operating system shares the cores fairly.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    environment = {"env_vars": dict(spec.env)} if spec.env else None
    if in_cluster():
        ray.init(runtime_env=environment, logging_level=logging.WARNING)
        return
    os.environ.update(NOT_ON_ONE_MACHINE)
    workers = spec.workers
    ray.init(
        address="local",
        num_cpus=math.ceil(workers.count * parse_cores(workers.resources.cpu)) + spec.data.cpus,
        num_gpus=workers.count * workers.resources.gpu,
        include_dashboard=False,
        runtime_env=environment,
        logging_level=logging.WARNING,
    )


def group_labels(group: str) -> tuple[dict[str, str], str | None]:
    """Return the node labels that keep work in a group, and a line when no node has them."""
    import ray

    if not group:
        return {}, None
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        labels: Mapping[str, str] = node.get("Labels", {})
        if node["Alive"] and labels.get(NODE_GROUP_LABEL) == group:
            return {NODE_GROUP_LABEL: group}, None
    return {}, f"no node has the label {NODE_GROUP_LABEL}={group}: it is ignored"


def quiet(log: TextIO) -> None:
    """Send what Ray and the workers print to the driver's log instead of its standard output."""
    import sys

    sys.stdout = log
