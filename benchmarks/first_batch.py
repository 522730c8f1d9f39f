"""Seconds to the first batch of an epoch: cold, warm and cached, ours and Ray Data.

Cold is the first epoch, from the start of the loop. Warm is the median of later epochs, which read
the files again, or rows in memory where they are cached. The first epochs as a whole are compared
too: filling a cache must not make one longer. One worker, 20,000 rows of 3072 numbers.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

EPOCHS = 4
BATCH_SIZE = 128


def main() -> None:
    """Measure all sides."""
    given = options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if given.quick else rows.CIFAR
    data = rows.make(shape, given.cache)
    sides = {
        "Ray Data": partial(plain, data, shape.features, False),
        "Ray Data materialized": partial(plain, data, shape.features, True),
        "ours streaming": partial(ours, data, shape.features, "none", "local"),
        "ours in workers": partial(ours, data, shape.features, "workers", "local"),
        "ours as objects": partial(ours, data, shape.features, "objects", "global"),
    }
    samples = in_turn(sides, given)
    warm, cached = Target("value", "<=", 1), Target("value", "<=", 0.1)
    ray_cold = ("Ray Data", samples.of("Ray Data", "cold"))
    ray_warm = ("Ray Data", samples.of("Ray Data", "warm"))
    streamed = ("ours streaming", samples.of("ours streaming", "first epoch"))
    filling = samples.of("ours in workers", "first epoch")
    same = Target("ratio", "<=", 1.05)
    ray_kept = ("Ray Data materialized", samples.of("Ray Data materialized", "warm"))
    figures = [
        Figure("Ray Data, cold", "s", ray_cold[1]),
        Figure("Ray Data, warm", "s", ray_warm[1]),
        Figure("Ray Data, materialized", "s", ray_kept[1]),
        Figure("ours, cold", "s", samples.of("ours streaming", "cold"), ray_cold),
        Figure("ours, warm", "s", samples.of("ours streaming", "warm"), ray_warm, warm),
        Figure("ours, in workers", "s", samples.of("ours in workers", "warm"), ray_kept, cached),
        Figure("ours, as objects", "s", samples.of("ours as objects", "warm"), ray_kept, cached),
        Figure("ours, the first epoch", "s", streamed[1]),
        Figure("ours, the first epoch, kept in workers", "s", filling, streamed, same),
    ]
    publish("first_batch", figures, samples, given)


def plain(data: Path, features: int, materialize: bool, folder: Path) -> Sample:
    """Run Ray Train with Ray Data."""
    out = folder / "epochs.json"
    paths = {"data": data, "out": out, "storage": folder, "materialize": materialize}
    sizes = {"features": features, "batch_size": BATCH_SIZE, "epochs": EPOCHS}
    output_of("benchmarks.plain.ray_batches", folder, paths | sizes)
    return first_batches(out)


def ours(data: Path, features: int, cache: str, shuffle: str, folder: Path) -> Sample:
    """Run the same with us."""
    out = folder / "epochs.json"
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.epochs:train",
        "config": {"features": features, "hidden": [256], "out": str(out)},
        "epochs": EPOCHS,
        "batchSize": BATCH_SIZE,
        "data": trainingrun.dataset(data, cache=cache, shuffle={"mode": shuffle}),
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0},
    }
    trainingrun.train(folder, spec)
    return first_batches(out)


def first_batches(out: Path) -> Sample:
    """Return the waits for the first batch of the first epoch and of the later ones."""
    epochs = json.loads(out.read_text(encoding="utf-8"))["epochs"]
    seconds = [epoch["firstSeconds"] for epoch in epochs]
    return {
        "cold": seconds[0],
        "warm": statistics.median(seconds[1:]),
        "first epoch": seconds[0] + epochs[0]["steadySeconds"],
    }


if __name__ == "__main__":
    main()
