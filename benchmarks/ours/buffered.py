"""Reads a pass with buffers of several sizes; writes the memory that a worker's process grew by."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import ray

from benchmarks.ours import feeding
from benchmarks.worker_memory import BLOCK, RANKS, case
from trainshed.data.loader.arrow_blocks import MOST_BYTES

STORE_BYTES = 2**30


def main() -> None:
    """Measure each number of ranks with each buffer, in processes of their own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--row-bytes", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True)
    parser.add_argument("--buffers", type=int, nargs="+", required=True)
    given = parser.parse_args()
    plans = {
        buffer: feeding.plan_of(
            f"buffer{buffer}",
            given.data,
            given.row_bytes,
            shuffle={"mode": "local", "bufferSize": buffer} if buffer else {"mode": "none"},
        )
        for buffer in (0, *given.buffers)
    }
    grown = {BLOCK: MOST_BYTES}
    with feeding.nodes(["all"], STORE_BYTES):
        client = feeding.feed(list(plans.values()))
        for count in RANKS:
            for buffer, plan in plans.items():
                ranks = feeding.ranks_on(["all"] * count)
                at = feeding.pass_of(plan, count, given.batch_size, group=client.join(0))
                read = [rank.read.remote(plan, at, client.handle, given.pause) for rank in ranks]
                grown[case(count, buffer)] = max(ray.get(read))
                for rank in ranks:
                    ray.kill(rank)
    given.out.write_text(json.dumps(grown), encoding="utf-8")


if __name__ == "__main__":
    main()
