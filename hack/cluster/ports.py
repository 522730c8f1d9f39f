"""Ports of this machine that nobody has."""

import random
import socket

from hack.cluster.failure import ClusterError

LOOPBACK = "127.0.0.1"
# Below what the kernel hands out by itself: nobody's outgoing connection sits there.
_PORTS = range(20_000, 32_000)


def pick_ports(count: int) -> list[int]:
    """Return ports that nothing listens on now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, k=200):
        if len(found) == count:
            break
        if not _is_taken(port):
            found.append(port)
    if len(found) < count:
        raise ClusterError(
            f"no {count} free ports between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}"
        )
    return found


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
