"""Starts Ray on this machine for one run, or joins a running cluster."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trainshed.planning.cluster_capacity import ClusterNodes, Node
from trainshed_api.groups import NodeGroup, decode_groups
from trainshed_api.names import ENV_GROUPS, ENV_PREFIX, NODE_GROUP_LABEL
from trainshed_api.quantity import parse_cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed_api.v1alpha1 import TrainingRunSpec

# Ray's controller looks after its workers every 2 s by default, and each report waits for a look
# (ray-project/ray PR 56718): 4.9 reports a second at 0.2 s, 9.8 at 0.1 s. A look costs about
# a millisecond a worker.
SETTINGS = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_COLOR_PREFIX": "0",  # lines of workers are shown as they are, without colours
    "RAY_USAGE_STATS_ENABLED": "0",
}

# Each of these is a separate actor, a second of two cores at every start. The state actor serves
# the dashboard, which is not started here; the watcher looks for nodes that are drained.
NOT_ON_ONE_MACHINE = {
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}
# A restarted worker group asks for its CPUs a moment before the lost one has given them back; by
# default Ray then waits a second before it looks again.
RETRY_SOON = {
    "RAY_gcs_create_placement_group_retry_min_interval_ms": "50",
    "RAY_gcs_create_placement_group_retry_max_interval_ms": "200",
}


# What all processes of a Ray job inherit: the config that Ray hands its driver as a variable.
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# Read by the process that stops the driver.
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"

# The name of a thread that uses Ray to the end of the process, however that comes.
AT_WORK = "fit"

# KubeRay sets it in the head's Pod when the cluster scales automatically.
ENV_AUTOSCALER = "RAY_enable_autoscaler_v2"


def in_cluster() -> bool:
    """Say whether this process was started inside a Ray cluster or pointed at one.

    An http address is that of a dashboard, which takes jobs; nobody can join there.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    return bool(address) and not address.startswith(("http://", "https://"))


def start(spec: TrainingRunSpec, working_dir: Path | None = None) -> None:
    """Start Ray here with resources for workers and data, or join a running cluster.

    What is started or joined already stays. `working_dir` is sent to all nodes of the cluster.
    The data's CPUs are logical ones on top of the machine's: Ray Data must never wait for Ray
    Train, and the operating system shares the cores fairly.
    """
    _set()
    import ray

    if ray.is_initialized():
        return
    environment = {"env_vars": dict(spec.env)} if spec.env else None
    with _signals_stay_ours():
        if in_cluster():
            if JOB_CONFIG in os.environ:
                os.environ.update(for_workers(os.environ, spec.env))
                environment = None
            brought = {"working_dir": str(working_dir)} if working_dir else {}
            ray.init(
                runtime_env={**(environment or {}), **brought} or None,
                logging_level=logging.WARNING,
            )
            if working_dir and JOB_CONFIG in os.environ:
                sent = ray.get_runtime_context().runtime_env["working_dir"]
                os.environ.update(with_working_dir(os.environ, sent))
            return
        os.environ.update(NOT_ON_ONE_MACHINE | RETRY_SOON)
        workers = spec.workers
        cpus = math.ceil(workers.count * parse_cores(workers.resources.cpu))
        ray.init(
            address="local",
            num_cpus=cpus + spec.data.cpus,
            num_gpus=workers.count * workers.resources.gpu,
            include_dashboard=False,
            runtime_env=environment,
            logging_level=logging.WARNING,
        )


@contextlib.contextmanager
def for_rows(cpus: int, env: Mapping[str, str], gpus: int = 0) -> Iterator[None]:
    """Have a Ray here to look at rows with, and end it; what is started already stays.

    Args:
        cpus: that tasks may take.
        env: variables of its processes.
        gpus: that tasks may take.
    """
    _set()
    import ray

    if ray.is_initialized():
        yield
        return
    ray.init(
        address="local",
        num_cpus=cpus,
        num_gpus=gpus,
        include_dashboard=False,
        runtime_env={"env_vars": dict(env)} if env else None,
        logging_level=logging.WARNING,
        log_to_driver=False,  # or what functions print would be among the rows
    )
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def joined(cpus: int, gpus: int) -> Iterator[None]:
    """Have the Ray cluster that this process is in, or a Ray here, as `for_rows` does.

    Args:
        cpus: that tasks may take, of a Ray here.
        gpus: the same.
    """
    if not in_cluster():
        with for_rows(cpus, {}, gpus):
            yield
        return
    _set()
    import ray

    ray.init(logging_level=logging.WARNING)
    try:
        yield
    finally:
        ray.shutdown()


def _set() -> None:
    """Set Ray's environment variables; existing values are kept."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def _signals_stay_ours() -> Iterator[None]:
    """Let this process alone handle a stop: ray.init() leaves its handler, and Ray its group.

    Without it ray.init() puts a handler that exits at once. And a SIGTERM to the whole process
    group, as of `timeout`, systemd and scancel, would end Ray before the run has saved anything.

    Private to Ray 2.60. Neither a thread nor a signal mask would do: what Ray starts dies with the
    thread that started it, and inherits the mask. That it dies is set in the child that Ray forks,
    just before it becomes one of Ray's processes: there it can leave the group, too.
    """
    from ray._private import utils

    set_handler, die_with_parent = utils.set_sigterm_handler, utils.set_kill_on_parent_death_linux

    def leave_group() -> None:
        os.setsid()
        die_with_parent()  # type: ignore[no-untyped-call]

    utils.set_sigterm_handler = lambda _handler: None
    utils.set_kill_on_parent_death_linux = leave_group
    try:
        yield
    finally:
        utils.set_sigterm_handler = set_handler
        utils.set_kill_on_parent_death_linux = die_with_parent
        # Ray's C++ part puts one before it that prints a trace of the stack first.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def address() -> str:
    """Return where other programs on this machine find the Ray that was started."""
    import ray

    return str(ray.get_runtime_context().gcs_address)


def leave(code: int) -> NoReturn:
    """End this process and, where it started Ray, Ray's.

    An orderly shutdown and Python's own take three seconds of two cores, and save nothing: all that
    a run leaves is on storage by now.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if in_cluster():
        if any(thread.name == AT_WORK for thread in threading.enumerate()):
            # It would ask a Ray that was shut down, which ends the process with another exit code.
            os._exit(code)
        sys.exit(code)
    for process in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os._exit(code)


def descendants(parent: int) -> list[int]:
    """Return the children of a process, theirs, and so on; parents before their children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # proc(5): the parent is field 4; field 2 is the command in brackets and may hold spaces
            text = stat.read_text(encoding="utf-8", errors="replace")
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(
                int(stat.parent.name)
            )
    found = list(children.get(parent, []))
    for process in found:  # grows while it is walked
        found.extend(children.get(process, []))
    return found


def nodes(admitted: bool) -> ClusterNodes:
    """Return the cluster as it is now.

    Args:
        admitted: whether a controller let the run in, so that what lacks is about to come.
    """
    import ray
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()  # type: ignore[no-untyped-call]
    there = [
        Node(node["Labels"], node["Resources"], free.get(node["NodeID"], {}))
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    ]
    waits = admitted or os.environ.get(ENV_AUTOSCALER) in ("1", "true")
    told = decode_groups(os.environ.get(ENV_GROUPS, ""))
    return ClusterNodes(there, waits, [node for group in told for node in _nodes_of(group)])


def _nodes_of(group: NodeGroup) -> list[Node]:
    memory = math.inf if group.memory is None else group.memory
    total = {"CPU": group.cpus, "GPU": group.gpus, "memory": memory}
    return [Node({NODE_GROUP_LABEL: group.name}, total, total)] * group.nodes


def for_workers(environment: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with which Ray gives a job's processes `env` and its own code.

    What is meant for the driver alone is left out: the token to tell the controller, for one. And
    workers without their own variables start in processes that Ray keeps ready.

    Args:
        environment: of the driver.
        env: of the spec.
    """
    config = json.loads(environment.get(JOB_CONFIG, "{}"))
    runtime_env = dict(config.get("runtime_env") or {})
    theirs = runtime_env.pop("env_vars", None) or {}
    variables = {
        name: value
        for name, value in theirs.items()
        if not name.startswith(ENV_PREFIX) and name != _STOP_WAIT
    }
    if variables | dict(env):
        runtime_env["env_vars"] = variables | dict(env)
    return {JOB_CONFIG: json.dumps({**config, "runtime_env": runtime_env})}


def with_working_dir(environment: Mapping[str, str], sent: str) -> dict[str, str]:
    """Return the variable for a script that starts Ray by itself, with code that was sent.

    Args:
        environment: of the driver.
        sent: where Ray has put it.
    """
    config = json.loads(environment[JOB_CONFIG])
    runtime_env = {**(config.get("runtime_env") or {}), "working_dir": sent}
    return {JOB_CONFIG: json.dumps({**config, "runtime_env": runtime_env})}
