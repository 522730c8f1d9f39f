"""Pictures/s that a GPU trains on: ours and torch's DataLoader against a batch that lies there.

JPEG pictures of 256x256 are read, decoded to 224x224 and shuffled for a ResNet in bfloat16, batches
of 256; the first epoch is dropped, and so is the wait for an epoch's first batch. All cores but two
decode on either side, DataLoader with Pillow. 1.00 of the batch that lies there is no wait at all.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import stored, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.ours.loading import dataset_of
from benchmarks.plain.case import write_cases
from benchmarks.plain.residual import SHAPES
from benchmarks.processes import PYTHON, seconds_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from benchmarks.plain.case import Case

BATCH, BUFFER, EPOCHS = 256, 2048, 4
MEGABYTES, QUICK_MEGABYTES = 400, 40
RESIDENT = "a batch that lies there"


def main() -> None:
    """Measure."""
    given = options(__doc__)
    megabytes = QUICK_MEGABYTES if given.quick else MEGABYTES
    case = replace(stored.cases("jpeg", megabytes, given.cache)[0], batch_size=BATCH)
    readers = max(1, (os.cpu_count() or 1) - 2)
    figures: list[Figure] = []
    sides = {
        f"{network}: {name}": side
        for network in SHAPES
        for name, side in {
            RESIDENT: partial(plain, case, network, 0),
            "DataLoader": partial(plain, case, network, readers),
            "ours": partial(ours, case, network, readers),
        }.items()
    }
    samples = in_turn(sides, given)
    for network in SHAPES:
        most, theirs, mine = (
            samples.of(f"{network}: {side}", "rate") for side in (RESIDENT, "DataLoader", "ours")
        )
        name, loader = f"{network}: ours", f"DataLoader, {readers} workers"
        figures += [
            Figure(f"{network}: {RESIDENT}", "rows/s", most),
            Figure(f"{network}: {loader}", "rows/s", theirs, (RESIDENT, most)),
            Figure(name, "rows/s", mine, (RESIDENT, most), Target("ratio", ">=", 0.95)),
            Figure(name, "rows/s", mine, (loader, theirs), Target("ratio", ">=", 1.0)),
        ]
    publish("gpu_feed", figures, samples, given)


def plain(case: Case, network: str, workers: int, folder: Path) -> Sample:
    """Train without us; no workers: one batch that lies on the GPU."""
    listed, out = folder / "cases.json", folder / "epochs.json"
    write_cases([case], listed)
    paths = ["--cases", str(listed), "--out", str(out)]
    how = ["--network", network, "--epochs", str(EPOCHS), "--workers", str(workers)]
    seconds_of([PYTHON, "-m", "benchmarks.plain.gpu_loading", *paths, *how])
    return steady(out)


def ours(case: Case, network: str, readers: int, folder: Path) -> Sample:
    """Train the same with us."""
    out = folder / "epochs.json"
    train: JsonValue = {
        **dataset_of(case, case.folder, "none"),
        "shuffle": {"mode": "blocks", "bufferSize": BUFFER},
    }
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.gpu_epochs:train",
        "config": {"network": network, "out": str(out)},
        "epochs": EPOCHS,
        "batchSize": BATCH,
        "precision": "bfloat16",
        "data": {"cpus": readers, "datasets": {"train": train}},
        "workers": {"count": 1, "resources": {"cpu": 1, "gpu": 1}},
        "checkpoint": {"everyEpochs": 0},
    }
    trainingrun.train(folder, spec)
    return steady(out)


def steady(out: Path) -> Sample:
    """Return rows a second, the median over epochs but the first."""
    epochs = json.loads(out.read_text(encoding="utf-8"))["epochs"][1:]
    return {"rate": statistics.median(e["steps"] * BATCH / e["steadySeconds"] for e in epochs)}


if __name__ == "__main__":
    main()
