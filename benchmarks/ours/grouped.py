"""Measures epochs of a worker on a node without CPUs for data, which another node prepares."""

import time
from pathlib import Path
from typing import Any

from benchmarks.ours import feeding
from benchmarks.ours.loading import LOADERS, measure_epochs, prepare_run
from benchmarks.plain.case import Case
from trainshed.coordinator import start as coordinator

STORE_BYTES = 2**29
LOADER = LOADERS["streamed, 2 CPUs"]
DATA_NODE = (("side", "data"),)


def main(*, case: dict[str, Any], folder: str, epochs: int, pause: float) -> list[dict[str, float]]:
    """Return the epoch times, after an epoch that starts the processes of data tasks."""
    loaded = Case(**case)
    with feeding.start_ray(["train", "data"], STORE_BYTES):
        ranks = feeding.start_ranks(["train"])
        warm_up, run = (
            prepare_run(loaded, loaded.folder, LOADER, count, Path(folder)) for count in (1, epochs)
        )
        client = coordinator.start(run.spec, time.time())
        measure_epochs(warm_up, client, ranks, labels=DATA_NODE)
        return measure_epochs(run, client, ranks, labels=DATA_NODE, pause=pause)
