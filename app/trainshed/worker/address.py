"""The address of a rank. Must stay light: Ray Train's controller sends it to workers."""

from __future__ import annotations

import socket

import ray


def free_address() -> tuple[str, int]:
    """Return this node's address and a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        return address, int(probe.getsockname()[1])
