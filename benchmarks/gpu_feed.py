"""Images/s that a GPU trains on: ours and torch's DataLoader against a batch that stays on the GPU.

JPEGs of 256x256 are read, decoded to 224x224 and shuffled for a ResNet in bfloat16, with batches of
256. The first epoch does not count. Whole rates include the wait for the first batch of an epoch,
and steady rates exclude it: during it each worker of DataLoader makes a batch, and ours fills its
buffer. All cores but two decode on both sides, DataLoader with Pillow.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from benchmarks import stored, trainingrun
from benchmarks.loaders import RATES, rates_of
from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    in_turn,
    options_in,
    parser_of,
    publish,
)
from benchmarks.ours.loading import dataset_of
from benchmarks.plain.case import list_cases
from benchmarks.plain.residual import SHAPES
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from benchmarks.plain.case import Case

BATCH, BUFFER, EPOCHS = 256, 2048, 4
MEGABYTES, QUICK_MEGABYTES = 400, 40
RESIDENT, OURS = "a resident batch", "ours"


def main() -> None:
    """Measure both networks."""
    parser = parser_of(__doc__)
    parser.add_argument("--networks", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    asked = parser.parse_args()
    given = options_in(asked)
    check_gpu()
    megabytes = QUICK_MEGABYTES if given.quick else MEGABYTES
    case = replace(stored.cases("jpeg", megabytes, given.cache)[0], batch_size=BATCH)
    readers = max(1, (os.cpu_count() or 1) - 2)
    loader = f"DataLoader with Pillow, {readers} workers"
    sides = {
        f"{network}: {name}": side
        for network in asked.networks
        for name, side in {
            RESIDENT: partial(train_plain, case, network, None),
            loader: partial(train_plain, case, network, readers),
            OURS: partial(train_ours, case, network, readers),
        }.items()
    }
    samples = in_turn(sides, given)
    figures = [
        figure
        for network in asked.networks
        for rate in RATES
        for figure in compare(network, loader, rate, samples)
    ]
    publish("gpu_feed", figures, samples, given)


def check_gpu() -> None:
    """Exit if torch sees no CUDA device."""
    if not torch.cuda.is_available():
        raise SystemExit("gpu_feed: torch sees no CUDA device here; expected a machine with one")


def compare(network: str, loader: str, rate: str, samples: Samples) -> list[Figure]:
    """Return the lines of a network."""
    most, theirs, mine = (
        samples.of(f"{network}: {side}", rate) for side in (RESIDENT, loader, OURS)
    )
    title = f"{network}, {rate}"
    return [
        Figure(f"{title}: {RESIDENT}", "rows/s", most),
        Figure(f"{title}: {loader}", "rows/s", theirs, (RESIDENT, most)),
        Figure(f"{title}: {OURS}", "rows/s", mine, (RESIDENT, most), Target("ratio", ">=", 0.95)),
        Figure(f"{title}: {OURS}", "rows/s", mine, (loader, theirs), Target("ratio", ">=", 1.0)),
    ]


def train_plain(case: Case, network: str, workers: int | None, folder: Path) -> Sample:
    """Train without us."""
    out = folder / "epochs.json"
    options = {"listed": list_cases([case]), "out": out, "network": network, "epochs": EPOCHS}
    output_of("benchmarks.plain.gpu_loading", folder, {**options, "workers": workers})
    return read_rates(out)


def train_ours(case: Case, network: str, readers: int, folder: Path) -> Sample:
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
    return read_rates(out)


def read_rates(out: Path) -> Sample:
    """Return rows a second, whole and steady, of all epochs but the first."""
    epochs = json.loads(out.read_text(encoding="utf-8"))["epochs"][1:]
    return rates_of(epochs, BATCH)


if __name__ == "__main__":
    main()
