"""What this machine has to have before anything is made, asked one by one."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from hack.cluster import control_plane, node
from hack.cluster.failure import ClusterError
from hack.tools.finder import ToolMissingError, find

# Images of a training application are large: one in its layers, one unpacked.
_FREE_BYTES = 15 << 30
# Each program that is not pinned, with the package of Debian and Ubuntu that holds it.
_PROGRAMS = {
    "catatonit": "catatonit",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "runc": "runc",
    "unshare": "util-linux",
}


def check_root() -> None:
    """Raise ClusterError where no cluster of processes can be."""
    if sys.platform != "linux":
        raise ClusterError(
            f"without a container engine a cluster needs Linux, not {sys.platform}: start Docker"
        )
    if os.geteuid() != 0:
        raise ClusterError(
            "without a container engine a cluster needs root: use sudo, or start Docker"
        )


def check(home: Path, *, free_bytes: int = _FREE_BYTES) -> None:
    """Raise ClusterError, in one line, for the first thing that is missing."""
    missing = sorted({_PROGRAMS[name] for name in _PROGRAMS if shutil.which(name) is None})
    if missing:
        raise ClusterError(f"programs are missing: apt-get install {' '.join(missing)}")
    free = shutil.disk_usage(home).free
    if free < free_bytes:
        raise ClusterError(
            f"{home} has {free >> 30} GiB free, a cluster wants {free_bytes >> 30} GiB"
        )
    get_tools((*control_plane.TOOLS, *node.TOOLS, *node.PLACED))


def get_tools(names: Iterable[str]) -> None:
    """Fetch or build the tools that are not here yet. Raises ClusterError for the first failure."""
    try:
        for name in names:
            find(name)
    except ToolMissingError as missing:
        raise ClusterError(str(missing)) from None


def init_program() -> str:
    """Return a program that waits for ever and buries the dead: number 1 here and in every pod."""
    path = shutil.which("catatonit")
    assert path is not None, "check() came first"
    return str(Path(path).resolve())
