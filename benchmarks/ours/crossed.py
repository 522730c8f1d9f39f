"""Reads passes on two nodes that have no data; writes the bytes that their nodes were sent.

By the metrics of Ray's object managers, which count what goes from one node's object store to
another's.
"""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import ray

from benchmarks.crossings import SIDES, WAYS
from benchmarks.ours import feeding
from benchmarks.plain.program import start
from trainshed.coordinator.client import handle_of

if TYPE_CHECKING:
    from collections.abc import Mapping

RECEIVED = "ray_object_manager_bytes{", 'Type="Received"'
STORE_BYTES = 2**29
# Metrics come a second after what they count, at most a few more on a busy machine.
SETTLED_SECONDS, PATIENCE_SECONDS = 6.0, 60.0


def main(*, data: str, row_bytes: int, batch_size: int) -> dict[str, float]:
    """Measure each way, one after the other."""
    found: dict[str, float] = {}
    with feeding.nodes(["data", *sorted(set(SIDES))], STORE_BYTES) as cluster:
        ranks = feeding.ranks_on(SIDES)
        for name, way in WAYS.items():
            plan = feeding.plan_of(
                "train", Path(data), row_bytes, shuffle=way.shuffle, cache=way.cache
            )
            client = feeding.feed([plan], (("side", "data"),))
            for epoch in range(2):
                before = received(cluster.metrics)
                at = feeding.pass_of(plan, len(ranks), batch_size, epoch=epoch)
                ray.get([rank.read.remote(plan, at, handle_of(client), 0.0) for rank in ranks])
                found[f"{name}, epoch {epoch + 1}"] = received(cluster.metrics) - before
            ray.kill(handle_of(client))
    return found


def received(ports: Mapping[str, int]) -> float:
    """Return the bytes that all nodes were sent so far, once that stays the same for a while."""
    seen, since, deadline = -1.0, time.monotonic(), time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        now = sum(_received(port) for port in ports.values())
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > SETTLED_SECONDS:
            return seen
        time.sleep(0.5)
    raise TimeoutError(f"nodes were still sent something after {PATIENCE_SECONDS} s")


def _received(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    start, kind = RECEIVED
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start) and kind in line
    )


if __name__ == "__main__":
    start(main)
