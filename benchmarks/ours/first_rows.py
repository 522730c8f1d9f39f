"""Measures the time to the first batch of two ranks for each shuffle."""

import time
from pathlib import Path

import ray

from benchmarks.ours import feeding
from benchmarks.shuffles import STREAMS
from trainshed.coordinator.client import handle_of


def main(*, data: str, row_bytes: int, batch_size: int) -> dict[str, float]:
    """Return the seconds for each stream, each with its own coordinator.

    The first stream runs once before, to start the processes of data tasks.
    """
    seconds = {}
    with feeding.start_ray(["all"], 2**30):
        ranks = feeding.start_ranks(["all"] * 2)
        for name, stream in [("warm up", STREAMS["none"]), *STREAMS.items()]:
            plan = feeding.make_plan("train", Path(data), row_bytes, len(ranks), **stream)
            client = feeding.start_coordinator([plan])
            started = time.time()
            epoch_pass = feeding.make_pass(plan, len(ranks), batch_size)
            seconds[name] = feeding.wait_for_first(ranks, plan, epoch_pass, client) - started
            feeding.stop(ranks)
            ray.kill(handle_of(client))
    del seconds["warm up"]
    return seconds
