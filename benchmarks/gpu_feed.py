"""Images/s that a GPU trains on: ours and torch's DataLoader against a batch that stays on the GPU.

JPEGs of 256x256 are read, decoded to 224x224 and shuffled for a ResNet in bfloat16, with batches of
256. The first epoch does not count. Whole rates include the wait for the first batch of an epoch,
and steady rates exclude it: during it each worker of DataLoader makes a batch, and ours fills its
buffer. All cores but two decode on both sides, DataLoader with Pillow.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
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
    parse_options,
    parser_for,
    publish,
    run_sides,
)
from benchmarks.ours.loading import make_dataset
from benchmarks.plain.residual import SHAPES
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import JsonValue

    from benchmarks.plain.case import Case

BATCH, BUFFER, EPOCHS = 256, 2048, 4
MEGABYTES, QUICK_MEGABYTES = 400, 40
RESIDENT, OURS = "a resident batch", "ours"


def main() -> None:
    """Measure the networks."""
    parser = parser_for(__doc__)
    parser.add_argument("--networks", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    options = parse_options(parser)
    check_gpu()
    megabytes = QUICK_MEGABYTES if options.quick else MEGABYTES
    case = replace(stored.cases(["jpeg"], [megabytes], options.cache)[0], batch_size=BATCH)
    cpus = max(1, (os.cpu_count() or 1) - 2)
    loader = f"DataLoader with Pillow, {cpus} workers"
    sides: dict[str, Callable[[Path], Sample]] = {}
    for network in options.networks:
        sides |= {
            f"{network}: {RESIDENT}": partial(train_plain, case, network, None),
            f"{network}: {loader}": partial(train_plain, case, network, cpus),
            f"{network}: {OURS}": partial(train_ours, case, network, cpus),
        }
    samples = run_sides(sides, options)
    figures = [
        figure
        for network in options.networks
        for rate in RATES
        for figure in compare(network, loader, rate, samples)
    ]
    publish("gpu_feed", figures, samples, options)


def check_gpu() -> None:
    """Exit if torch sees no CUDA device."""
    if not torch.cuda.is_available():
        raise SystemExit("gpu_feed: torch sees no CUDA device here; expected a machine with one")


def compare(network: str, loader: str, rate: str, samples: Samples) -> list[Figure]:
    """Return the figures of a network."""
    resident, plain, ours = (
        samples.of(f"{network}: {side}", rate) for side in (RESIDENT, loader, OURS)
    )
    title, upper_bound = f"{network}, {rate}", (RESIDENT, resident)
    return [
        Figure(f"{title}: {RESIDENT}", "rows/s", resident),
        Figure(f"{title}: {loader}", "rows/s", plain, upper_bound),
        Figure(f"{title}: {OURS}", "rows/s", ours, upper_bound, Target("ratio", ">=", 0.95)),
        Figure(f"{title}: {OURS}", "rows/s", ours, (loader, plain), Target("ratio", ">=", 1.0)),
    ]


def train_plain(case: Case, network: str, workers: int | None, folder: Path) -> Sample:
    """Train with DataLoader, or without workers on a resident batch."""
    arguments = {"case": asdict(case), "network": network, "epochs": EPOCHS, "workers": workers}
    return rates_of(run_module("benchmarks.plain.gpu_loading", folder, arguments)[1:], BATCH)


def train_ours(case: Case, network: str, cpus: int, folder: Path) -> Sample:
    """Train the same with Trainshed."""
    dataset = make_dataset(case, case.folder, "none")
    dataset["shuffle"] = {"mode": "blocks", "bufferSize": BUFFER}
    data: JsonValue = {"cpus": cpus, "datasets": {"train": dataset}}
    epochs = trainingrun.train_epochs(
        folder,
        "benchmarks.ours.gpu_epochs:train",
        {"network": network},
        epochs=EPOCHS,
        batchSize=BATCH,
        precision="bfloat16",
        data=data,
        workers={"count": 1, "resources": {"cpu": 1, "gpu": 1}},
    )
    return rates_of(epochs[1:], BATCH)
