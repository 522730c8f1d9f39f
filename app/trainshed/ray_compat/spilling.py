"""Says once when rows go from Ray's object stores to disk, of which Ray Data says nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import grpc
import ray
from ray._private.internal_api import get_memory_info_reply, get_state_from_address

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_BETWEEN = 10.0
# What goes to disk beside much that stays is nobody's trouble.
LEAST_BYTES = 256 * 2**20


def watch_spilling(tell: Callable[[str], None], seconds_between: float = SECONDS_BETWEEN) -> None:
    """Look now and then, in a thread, until there is something to tell, which ends it.

    Args:
        tell: is told.
        seconds_between: two looks.
    """
    arguments = (tell, seconds_between)
    threading.Thread(target=_watch, args=arguments, name="spilling", daemon=True).start()


def spilled_bytes() -> int:
    """Return how much went from the object stores of all nodes to disk since they began.

    Raises:
        grpc.RpcError: when nobody answers.
    """
    # Without the address it may find another Ray of this machine.
    address = ray.get_runtime_context().gcs_address
    state = get_state_from_address(address)  # type: ignore[no-untyped-call]
    reply = get_memory_info_reply(state)  # type: ignore[no-untyped-call]
    return int(reply.store_stats.spilled_bytes_total)


def _watch(tell: Callable[[str], None], seconds_between: float) -> None:
    pause = threading.Event()
    begun: int | None = None
    while not pause.wait(seconds_between):
        try:
            spilled = spilled_bytes()
        except grpc.RpcError:  # the next look may hear more
            continue
        begun = spilled if begun is None else begun
        if spilled - begun >= LEAST_BYTES:
            tell(
                f"Ray's object stores are full: {(spilled - begun) / 2**20:,.0f} MB spilled to "
                "disk, which is slower to read. Give the data nodes larger object stores, set "
                "cache: disk or none, or lower data.cpus or feed.prefetchBatches"
            )
            return
