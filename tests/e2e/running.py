"""The cluster of a test run, as its tests speak to it."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.__main__ import Cluster
from hack.cluster.client import Client
from hack.cluster.diagnosis import diagnose

ROOT = Path(__file__).resolve().parents[2]
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
        """Create a namespace that enforces Pod Security `restricted`."""
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")

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


def wait_for(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until something holds, but not for ever; return whether it does."""
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so()
