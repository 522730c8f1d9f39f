"""Measures epochs of Ray Data, which reads, maps and iterates as in its guide."""

from functools import partial
from typing import Any

import numpy as np
import ray
import ray.data
from numpy.typing import NDArray

from benchmarks.plain.case import SIZE, Case, work
from benchmarks.plain.clock import EpochClock

Batch = dict[str, NDArray[np.generic]]


def apply_work(batch: Batch, rounds: int) -> Batch:
    """Return a batch with the work done on its features or images."""
    if "image" in batch:
        return {"image": work(batch["image"], rounds)}
    if "x" in batch:
        # Ray Data returns lists of one length as an array of arrays.
        return {"x": work(np.stack(list(batch["x"])), rounds), "y": batch["y"]}
    columns = [batch[name] for name in batch if name != "y"]
    x = np.stack(columns, axis=1, dtype=np.float32, casting="same_kind")
    return {"x": work(x, rounds), "y": batch["y"]}


def dataset(case: Case) -> ray.data.Dataset:
    """Return the dataset of a case."""
    if case.format == "parquet":
        rows = ray.data.read_parquet(case.folder)
    elif case.format == "csv":
        rows = ray.data.read_csv(case.folder)
    else:
        rows = ray.data.read_images(case.folder, size=(SIZE, SIZE), mode="RGB")
    return rows.map_batches(partial(apply_work, rounds=case.rounds), batch_size=case.batch_size)


def epochs(case: Case, count: int) -> list[dict[str, float]]:
    """Iterate over `count` epochs; return their times."""
    clock, rows = EpochClock(), dataset(case)
    for _ in range(count):
        for _ in clock.batches(rows.iter_torch_batches(batch_size=case.batch_size)):
            pass
    return clock.epochs


def main(
    *, cases: list[dict[str, Any]], num_epochs: int, cpus: int
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Measure each case, after an epoch that starts the processes of Ray Data."""
    ray.init("local", num_cpus=cpus, include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    loaded = [Case(**fields) for fields in cases]
    epochs(loaded[0], 1)
    return {case.name: {"ray": epochs(case, num_epochs)} for case in loaded}
