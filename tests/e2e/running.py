"""The cluster of a test run, as its tests speak to it."""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.__main__ import Cluster, choose_cluster
from hack.cluster.client import Client
from hack.cluster.diagnosis import diagnose

ROOT = Path(__file__).resolve().parents[2]
KEEP_VARIABLE = "TRAINSHED_KEEP_CLUSTER"
# A name of its own: the tests install and remove, and somebody may work on `trainshed`.
NAME = os.environ.get("TRAINSHED_CLUSTER", "e2e")


@dataclass(frozen=True, kw_only=True)
class RunningCluster(Client):
    """kubectl and helm on the cluster of this test run, and its node."""

    cluster: Cluster

    def load(self, archive: Path) -> None:
        """Give the node an image from an OCI or Docker archive."""
        self.cluster.load(archive)

    def create_restricted_namespace(self, name: str) -> None:
        """Create a namespace that enforces Pod Security `restricted`, unless it is there."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": name, "labels": labels}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))

    def start(self, tool: str, *arguments: str) -> subprocess.Popen[str]:
        """Start kubectl or helm for what goes on, such as a port-forward; the caller ends it."""
        return subprocess.Popen(
            self.command(tool, *arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def diagnose(self, namespace: str) -> str:
        """Return which Pods of a namespace are not well, why and what to do."""
        return diagnose(self, namespace)


@contextmanager
def hold(name: str) -> Iterator[None]:
    """Let one session of tests at a time have the cluster of a name; others wait."""
    with Path(tempfile.gettempdir(), f"trainshed-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bring_up(name: str) -> RunningCluster:
    """Bring up a cluster with one node, or take the one that is up."""
    up = subprocess.run(
        _command(name, "up"), cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert up.returncode == 0, up.stderr
    held = choose_cluster(name, os.environ.get("TRAINSHED_DRIVER"))
    client = held.client
    return RunningCluster(kubeconfig=client.kubeconfig, prefix=client.prefix, cluster=held)


def take_down(name: str) -> None:
    """Take a cluster down, unless it is to be kept."""
    if not os.environ.get(KEEP_VARIABLE):
        subprocess.run(_command(name, "down"), cwd=ROOT, check=True, timeout=300)


def _command(name: str, verb: str) -> list[str]:
    return [sys.executable, "-m", "hack.cluster", f"--name={name}", verb]


def wait_for(is_so: Callable[[], bool], seconds: float = 60, *, pause_seconds: float = 0.3) -> bool:
    """Wait until something holds, but not for ever; return whether it does.

    Asking kubectl costs a fifth of a second of a core, which what is waited for may need.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_seconds)
    return True
