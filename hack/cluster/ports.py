"""Ports of this machine that nobody has."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from hack.cluster.failure import ClusterError

LOOPBACK = "127.0.0.1"
# Below what the kernel hands out by itself: nobody's outgoing connection sits there.
_PORTS = range(20_000, 32_000)
# Files that stay open, and so locked, until this process ends: between the moment when a port is
# picked and the one when somebody listens on it, no other process of ours may pick it too.
_HELD: list[int] = []


def pick_ports(count: int) -> list[int]:
    """Return ports that nothing listens on now, and that nobody else is given."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, k=200):
        if len(found) == count:
            break
        if _reserve(port) and not _is_taken(port):
            found.append(port)
    if len(found) < count:
        raise ClusterError(
            f"no {count} free ports between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}"
        )
    return found


def _reserve(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / f"trainshed-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    held = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    _HELD.append(held)
    return True


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
