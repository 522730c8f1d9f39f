"""What a cluster of processes could leave on this machine."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.bare import HOME, BareCluster
from hack.cluster.enclosure import COVERED


@dataclass(frozen=True)
class Traces:
    """The machine's own mounts, interfaces, firewall, and what bears the cluster's name."""

    mounts: frozenset[str]
    interfaces: frozenset[str]
    namespaces: frozenset[str]
    firewall: str
    processes: frozenset[str]
    paths: frozenset[Path]


def read_traces(name: str) -> Traces:
    """Return what there is now."""
    # Other programs mount what they like meanwhile.
    where = (str(HOME), *COVERED)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line for line in lines if line.split()[4].startswith(where)]
    network = Path("/run/netns")
    cluster = BareCluster(name)
    paths = [cluster.folder, *Path("/sys/fs/cgroup").rglob(cluster.node.cgroup)]
    return Traces(
        frozenset(line.split()[4] for line in mounts),
        frozenset(os.listdir("/sys/class/net")),  # noqa: PTH208
        frozenset(path.name for path in network.iterdir()) if network.exists() else frozenset(),
        _output("iptables-save"),
        frozenset(_processes_of(name)),
        frozenset(path for path in paths if path.exists()),
    )


def _output(command: str) -> str:
    text = subprocess.run([command], capture_output=True, text=True, check=True).stdout
    # Its comments hold the time, its counters what others send meanwhile.
    lines = [line for line in text.splitlines() if line.startswith(("*", "-"))]
    return "\n".join(lines)


def _processes_of(name: str) -> list[str]:
    """Return command lines that name the cluster's folder or bear its mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        is_marked = f"TRAINSHED_LOCAL_CLUSTER={name}".encode() in environment
        if is_marked or str(HOME / name) in command:
            found.append(command)
    return found
