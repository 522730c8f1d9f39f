"""Measures the time to the first batch of two ranks for each shuffle."""

from __future__ import annotations

import time
from pathlib import Path

import ray

from benchmarks.ours import feeding
from benchmarks.plain.program import start
from benchmarks.shuffles import FED
from trainshed.coordinator.client import handle_of


def main(*, data: str, row_bytes: int, batch_size: int) -> dict[str, float]:
    """Measure one way after the other, each with a coordinator of its own.

    The processes of data's tasks and of the ranks are there: none of them is the first to start.
    """
    seconds = {}
    with feeding.nodes(["all"], 2**30):
        ranks = feeding.ranks_on(["all"] * 2)
        for name, way in [("warm up", FED["none"]), *FED.items()]:
            plan = feeding.plan_of(
                "train", Path(data), row_bytes, shuffle=way.shuffle, cache=way.cache
            )
            client = feeding.feed([plan])
            began = time.time()
            at = feeding.pass_of(plan, len(ranks), batch_size)
            seconds[name] = feeding.first_batches(ranks, plan, at, client) - began
            feeding.leave(ranks)
            ray.kill(handle_of(client))
        del seconds["warm up"]
    return seconds


if __name__ == "__main__":
    start(main)
