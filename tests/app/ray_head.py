"""A Ray cluster with groups of nodes, a dashboard and token authentication on this machine."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import JsonValue

from hack.cluster.ports import pick_ports
from tests.app.processes import Mark, end_with_us
from tests.app.ray_run import import_path
from tests.ray_starts import kept_folder, note_joined
from trainshed_api.names import NODE_GROUP_LABEL

TOKEN = "a-token-of-the-tests"
SECONDS_TO_START = 180
STORE_BYTES = 100 * 2**20
BIN = str(Path(sys.executable).parent)
# Ray ends processes beyond the number of CPUs that are idle for a second, and tests would start
# them again: each costs 2 to 7 s of a core, most of it imports.
KEEP_IDLE = {
    "RAY_num_workers_soft_limit": "8",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
}


@dataclass(frozen=True)
class Head:
    """The head of a running cluster.

    Args:
        address: of its dashboard.
        gcs: what drivers join.
        home: TRAINSHED_HOME of its processes.
        environment: of its processes and of who joins it, beside what a cluster needs.
    """

    address: str
    gcs: str
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: Mark = field(default_factory=Mark)

    @property
    def access(self) -> dict[str, str]:
        """Return the environment in which commands reach it."""
        return {"RAY_ADDRESS": self.address, "RAY_AUTH_TOKEN": TOKEN}

    @property
    def inside(self) -> dict[str, str]:
        """Return the environment of a driver in it."""
        return {
            "RAY_ADDRESS": self.gcs,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "TRAINSHED_HOME": str(self.home),
            **self.environment,
        }

    @property
    def joining(self) -> dict[str, str]:
        """Return the environment in which `trainshed run FILE` joins it; its home is the file's."""
        return {name: value for name, value in self.inside.items() if name != "TRAINSHED_HOME"}


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Run a cluster with a group of nodes for each kind of work; its home holds digits and rows.

    A driver that joins it costs half of one that starts a Ray: variants of runs are made here.
    """
    from tests.app.builders_rows import write_rows
    from trainshed.digits import write_digits
    from trainshed.storage.disk import Disk

    home = tmp_path_factory.mktemp("home")
    write_digits(Disk(home))
    write_rows(home / "rows", 240)
    with start_cluster(home, {"gpu": 2, "cpu": 2}) as running:
        yield running


@contextmanager
def start_cluster(
    home: Path, groups: Mapping[str, int], environment: Mapping[str, str] | None = None
) -> Iterator[Head]:
    """Run a cluster with a node for each group, the head the first; all is gone afterwards.

    Args:
        home: TRAINSHED_HOME of its processes.
        groups: CPUs of the node by its group.
        environment: of its processes and of who joins it.
    """
    gcs, dashboard, clients = pick_ports(3)
    address = f"http://127.0.0.1:{dashboard}"
    head = Head(address, f"127.0.0.1:{gcs}", home, environment or {})
    sessions = kept_folder()
    resources = [words_of(group, cpus) for group, cpus in groups.items()]
    with end_with_us(head.mark), noted(sessions):
        # Not --block: that ends it all when one of its processes does not start in time.
        start_node(
            head,
            *("--head", "--port", str(gcs), "--dashboard-port", str(dashboard)),
            *("--dashboard-host", "127.0.0.1", "--ray-client-server-port", str(clients)),
            *("--temp-dir", str(sessions), *resources[0]),
        )
        for number, words in enumerate(resources[1:]):
            # A folder of its own, as on a machine of its own: each node that comes to know of a job
            # unpacks its code anew, in a shared one under the feet of the job's driver.
            own = ("--temp-dir", str(sessions / str(number)))
            start_node(head, "--address", head.gcs, *own, *words)
        wait_for_dashboard(head)
        yield head


def words_of(group: str, cpus: int) -> tuple[str, ...]:
    """Return the words of `ray start` for a node of a group."""
    return ("--num-cpus", str(cpus), "--labels", f"{NODE_GROUP_LABEL}={group}")


@contextmanager
def noted(sessions: Path) -> Iterator[None]:
    """Note afterwards who joined, before all is gone."""
    try:
        yield
    finally:
        note_joined(sessions)


@contextmanager
def start_here(cpus: int, store_bytes: int = STORE_BYTES) -> Iterator[None]:
    """Run a Ray that this process has joined, without a dashboard and a token.

    Not longer than the tests of a module: others may want to see that this process has no Ray.
    """
    import ray

    with keep_idle():
        ray.init(
            address="local",
            num_cpus=cpus,
            object_store_memory=store_bytes,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=str(kept_folder()),
        )
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def keep_idle() -> Iterator[None]:
    """Have each Ray that starts meanwhile keep its idle processes."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in KEEP_IDLE.items():
            patched.setenv(name, value)
        yield


def start_node(head: Head, *words: str, pod: str = "") -> None:
    """Start a node of the cluster, or its head.

    Args:
        head: of the cluster.
        words: of `ray start`.
        pod: its Pod's name, as KubeRay tells it.
    """
    outside = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    inside = head.mark.environment | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": import_path(),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_CLOUD_INSTANCE_ID": pod,
        "TRAINSHED_HOME": str(head.home),
        # On a busy machine its dozen processes take longer to import than Ray waits for them.
        "RAY_raylet_start_wait_time_s": str(SECONDS_TO_START),
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(SECONDS_TO_START),
        "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": str(SECONDS_TO_START),
    }
    common = ["--disable-usage-stats", "--node-ip-address", "127.0.0.1"]
    # Every node's agent would listen on the same port by default, and jobs go through the agent.
    common += ["--dashboard-agent-listen-port", str(*pick_ports(1))]
    memory = ["--object-store-memory", str(STORE_BYTES)]
    started = subprocess.run(
        ["ray", "start", *words, *common, *memory],
        env=outside | inside | dict(head.environment),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert started.returncode == 0, started.stdout


def ask(head: Head, path: str) -> JsonValue:
    """Return what the dashboard answers."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(head.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: JsonValue = json.load(response)
        return answer


def wait_for_dashboard(head: Head) -> None:
    """Wait until the dashboard takes jobs."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        try:
            ask(head, "/api/jobs/")
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no dashboard at {head.address} within {SECONDS_TO_START} s")
