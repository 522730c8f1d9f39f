"""Reads a pass with buffers of several sizes; writes the memory that a worker's process grew by."""

from __future__ import annotations

from pathlib import Path

import ray

from benchmarks.ours import feeding
from benchmarks.plain.program import start
from benchmarks.worker_memory import BLOCK, RANKS, case
from trainshed.coordinator.client import handle_of
from trainshed.data.loader.arrow_blocks import MOST_BYTES

STORE_BYTES = 2**30


def main(
    *, data: str, row_bytes: int, batch_size: int, pause: float, buffers: list[int]
) -> dict[str, float]:
    """Measure each number of ranks with each buffer, in processes of their own."""
    plans = {
        buffer: feeding.plan_of(
            f"buffer{buffer}",
            Path(data),
            row_bytes,
            shuffle={"mode": "local", "bufferSize": buffer} if buffer else {"mode": "none"},
        )
        for buffer in (0, *buffers)
    }
    grown: dict[str, float] = {BLOCK: MOST_BYTES}
    with feeding.nodes(["all"], STORE_BYTES):
        client = feeding.feed(list(plans.values()))
        for count in RANKS:
            for buffer, plan in plans.items():
                ranks = feeding.ranks_on(["all"] * count)
                at = feeding.pass_of(plan, count, batch_size, group=client.join(0))
                read = [rank.read.remote(plan, at, handle_of(client), pause) for rank in ranks]
                grown[case(count, buffer)] = max(ray.get(read))
                for rank in ranks:
                    ray.kill(rank)
    return grown


if __name__ == "__main__":
    start(main)
