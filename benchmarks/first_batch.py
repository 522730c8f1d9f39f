"""Seconds to the first batch of an epoch: cold, warm and cached, ours and Ray Data.

Cold is the first epoch, from the start of the loop. Warm is the median of later epochs, which read
the files again, or rows in memory where they are cached. The first epochs as a whole are compared
too: filling a cache must not make one longer. One worker, 20,000 rows of 3072 numbers.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

EPOCHS = 4
BATCH_SIZE = 128


def main() -> None:
    """Measure all sides."""
    options = parse_options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if options.quick else rows.CIFAR
    data = rows.make(shape, options.cache)
    sides = {
        "Ray Data": partial(plain, data, shape.features, False),
        "Ray Data materialized": partial(plain, data, shape.features, True),
        "ours streaming": partial(ours, data, shape.features, "none", "local"),
        "ours in workers": partial(ours, data, shape.features, "workers", "local"),
        "ours as objects": partial(ours, data, shape.features, "objects", "global"),
    }
    samples = run_sides(sides, options)
    of = samples.of
    ray_cold, ray_warm = (("Ray Data", of("Ray Data", key)) for key in ("cold", "warm"))
    materialized = ("Ray Data materialized", of("Ray Data materialized", "warm"))
    streamed = ("ours streaming", of("ours streaming", "first epoch"))
    filling = of("ours in workers", "first epoch")
    warm, cached = Target("value", "<=", 1), Target("value", "<=", 0.1)
    figures = [
        Figure("Ray Data, cold", "s", ray_cold[1]),
        Figure("Ray Data, warm", "s", ray_warm[1]),
        Figure("Ray Data, materialized", "s", materialized[1]),
        Figure("ours, cold", "s", of("ours streaming", "cold"), ray_cold),
        Figure("ours, warm", "s", of("ours streaming", "warm"), ray_warm, warm),
        Figure("ours, in workers", "s", of("ours in workers", "warm"), materialized, cached),
        Figure("ours, as objects", "s", of("ours as objects", "warm"), materialized, cached),
        Figure("ours, first epoch", "s", streamed[1]),
        Figure(
            "ours, first epoch, in workers", "s", filling, streamed, Target("ratio", "<=", 1.05)
        ),
    ]
    publish("first_batch", figures, samples, options)


def plain(data: Path, features: int, materialize: bool, folder: Path) -> Sample:
    """Train with Ray Train and Ray Data."""
    paths = {"data": data, "storage": folder, "materialize": materialize}
    sizes = {"features": features, "batch_size": BATCH_SIZE, "epochs": EPOCHS}
    return first_batches(run_module("benchmarks.plain.ray_batches", folder, paths | sizes))


def ours(data: Path, features: int, cache: str, shuffle: str, folder: Path) -> Sample:
    """Train the same with Trainshed."""
    epochs = trainingrun.train_epochs(
        folder,
        "benchmarks.ours.epochs:train",
        {"features": features, "hidden": [256]},
        epochs=EPOCHS,
        batchSize=BATCH_SIZE,
        data=trainingrun.dataset(data, cache=cache, shuffle={"mode": shuffle}),
    )
    return first_batches(epochs)


def first_batches(epochs: list[dict[str, float]]) -> Sample:
    """Return the wait for the first batch, cold and warm, and the length of the first epoch."""
    return {
        "cold": epochs[0]["firstSeconds"],
        "warm": statistics.median(epoch["firstSeconds"] for epoch in epochs[1:]),
        "first epoch": epochs[0]["firstSeconds"] + epochs[0]["steadySeconds"],
    }
