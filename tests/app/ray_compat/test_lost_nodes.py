"""Ray drops a node whose Pod is gone as soon as it is told, and no other one."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest

from tests.app.ray_head import Head, ask, start_node
from tests.app.ray_run import ROOT
from tests.chart.rendering import at, rows, text

# Ray's own health checks take fifteen seconds at the least.
SOON_SECONDS = 10.0
DROP = """
import sys
from trainshed.ray_compat.lost_nodes import drop_nodes
drop_nodes(sys.argv[1], set(sys.argv[2:]))
"""


def drop(head: Head, *pods: str) -> None:
    """Say that Pods are gone, without joining the cluster."""
    paths = os.pathsep.join(str(ROOT / path) for path in ("api", "app"))
    subprocess.run(
        [sys.executable, "-c", DROP, head.gcs, *pods],
        env={**os.environ, **head.inside, "PYTHONPATH": paths},
        check=True,
        timeout=120,
    )


def states(head: Head) -> dict[str, str]:
    """Return the state of each node by its label `pod`."""
    listed = rows(ask(head, "/api/v0/nodes?detail=1"), "data", "result", "result")
    return {str(at(node, "labels", "pod")): text(node, "state") for node in listed}


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder for nodes: the paths of their sockets must not be long."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as name:
        yield name


@pytest.mark.ray
def test_a_node_is_dead_once_its_pod_is_said_to_be_gone(head: Head, folder: str) -> None:
    for pod in ("lost", "kept"):
        own = ("--temp-dir", f"{folder}/{pod}")
        size = ("--num-cpus", "0", "--labels", f"pod={pod}")
        start_node(head, "--address", head.gcs, *own, *size, pod=pod)

    drop(head, "lost", "never-there")

    deadline = time.monotonic() + SOON_SECONDS
    while states(head)["lost"] != "DEAD" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {"lost": "DEAD", "kept": "ALIVE"}.items() <= states(head).items()
