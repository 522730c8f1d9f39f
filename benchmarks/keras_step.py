"""Milliseconds of a Keras step: ours, streamed and cached, against plain Keras on arrays in memory.

One worker and one thread on each side, 64-512-512-10 with batch size 1024. The first epoch does not
count, nor the first step of each. Needs TensorFlow:
`hack/with-packages.sh images/app/tensorflow.txt make bench NAME=keras_step`.
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

EPOCHS, BATCH, HIDDEN = 5, 1024, (512, 512)
QUICK = rows.Shape("quick", 20_480, 64)
# How ours is fed: cache and shuffle.
WAYS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "streaming": ("none", {"mode": "local", "bufferSize": 5_000}),
    "cached in workers": ("workers", {"mode": "local", "bufferSize": 5_000}),
}


def main() -> None:
    """Measure all sides."""
    given = options(__doc__)
    shape = QUICK if given.quick else rows.NARROW
    data = rows.make(shape, given.cache)
    sides = {"plain": partial(plain, data)}
    sides |= {way: partial(ours, data, shape.features, *WAYS[way]) for way in WAYS}
    samples = in_turn(sides, given, is_mirrored=True)
    alone = samples.of("plain", "milliseconds")
    figures = [Figure("plain Keras", "ms", alone)]
    target = Target("ratio", "<=", 1.25)
    figures += [
        Figure(
            f"ours, {way}", "ms", samples.of(way, "milliseconds"), ("plain Keras", alone), target
        )
        for way in WAYS
    ]
    publish("keras_step", figures, samples, given)


def plain(data: Path, folder: Path) -> Sample:
    """Fit arrays in memory."""
    out = folder / "epochs.json"
    paths = {"data": data, "out": out}
    sizes = {"hidden": HIDDEN, "batch_size": BATCH, "epochs": EPOCHS}
    keras_2 = {"TF_USE_LEGACY_KERAS": "1"}  # as Ray has it
    output_of("benchmarks.plain.keras_fit", folder, paths | sizes, environment=keras_2)
    return steady(out)


def ours(
    data: Path, features: int, cache: str, shuffle: dict[str, JsonValue], folder: Path
) -> Sample:
    """Fit the same with us."""
    out = folder / "epochs.json"
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.keras_epochs:train",
        "framework": "tensorflow",
        "config": {"features": features, "hidden": list(HIDDEN), "out": str(out)},
        "epochs": EPOCHS,
        "batchSize": BATCH,
        "data": trainingrun.dataset(data, cache=cache, shuffle=shuffle),
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0},
    }
    trainingrun.train(folder, spec)
    return steady(out)


def steady(out: Path) -> Sample:
    """Return the milliseconds of a step, the median over epochs but the first."""
    epochs = json.loads(out.read_text(encoding="utf-8"))["epochs"][1:]
    return {
        "milliseconds": statistics.median(1e3 * e["steadySeconds"] / e["steps"] for e in epochs)
    }


if __name__ == "__main__":
    main()
