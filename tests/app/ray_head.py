"""A Ray head with a dashboard and token authentication on this machine, as a cluster has it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.app.processes import Mark
from tests.app.ray_run import ROOT

TOKEN = "a-token-of-the-tests"
SECONDS_TO_START = 90
BIN = str(Path(sys.executable).parent)


@dataclass(frozen=True)
class Head:
    """A running head.

    Args:
        address: of its dashboard.
        gcs: what drivers join.
        home: TRAINSHED_HOME of its processes.
    """

    address: str
    gcs: str
    home: Path
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
        }


@contextmanager
def start_head(home: Path, num_cpus: int = 4) -> Iterator[Head]:
    """Run a head; all of it is gone afterwards."""
    gcs, dashboard = free_port(), free_port()
    head = Head(f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{gcs}", home)
    sessions = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets want a short path
    words = [
        *("ray", "start", "--head", "--disable-usage-stats", "--node-ip-address", "127.0.0.1"),
        *("--port", str(gcs), "--dashboard-port", str(dashboard)),
        *("--ray-client-server-port", str(free_port())),
        *("--dashboard-host", "127.0.0.1", "--num-cpus", str(num_cpus)),
        *("--object-store-memory", str(200 * 2**20), "--temp-dir", str(sessions)),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= head.mark.environment | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("api", "app", ".")),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "TRAINSHED_HOME": str(home),
    }
    try:
        # Not --block: that ends it all when one of its processes does not start in time.
        subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        wait_for_dashboard(head)
        yield head
    finally:
        head.mark.kill()
        shutil.rmtree(sessions, ignore_errors=True)


def wait_for_dashboard(head: Head) -> None:
    """Wait until the dashboard takes jobs."""
    request = urllib.request.Request(
        f"{head.address}/api/jobs/", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no dashboard at {head.address} within {SECONDS_TO_START} s")


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
