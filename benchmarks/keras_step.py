"""Milliseconds of a Keras step: ours, streamed and cached, against plain Keras on arrays in memory.

One worker and one thread on each side, 64-512-512-10 with batch size 1024. The first epoch does not
count, nor the first step of each. Needs TensorFlow:
`hack/with-packages.sh images/app/tensorflow.txt make bench NAME=keras_step`.
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

    from pydantic import JsonValue

EPOCHS, BATCH, HIDDEN = 5, 1024, [512, 512]
QUICK = rows.Shape("quick", 20_480, 64)
# `cache` of each variant of ours.
VARIANTS = {"streaming": "none", "cached in workers": "workers"}


def main() -> None:
    """Measure all sides."""
    options = parse_options(__doc__)
    shape = QUICK if options.quick else rows.NARROW
    data = rows.make(shape, options.cache)
    sides = {"plain": partial(plain, data)}
    sides |= {name: partial(ours, data, shape.features, VARIANTS[name]) for name in VARIANTS}
    samples = run_sides(sides, options, is_mirrored=True)
    keras = ("plain Keras", samples.of("plain", "milliseconds"))
    target = Target("ratio", "<=", 1.25)
    figures = [Figure("plain Keras", "ms", keras[1])]
    for name in VARIANTS:
        values = samples.of(name, "milliseconds")
        figures.append(Figure(f"ours, {name}", "ms", values, keras, target))
    publish("keras_step", figures, samples, options)


def plain(data: Path, folder: Path) -> Sample:
    """Train on arrays in memory."""
    arguments = {"data": data, "hidden": HIDDEN, "batch_size": BATCH, "epochs": EPOCHS}
    keras_2 = {"TF_USE_LEGACY_KERAS": "1"}  # as in Ray
    module = "benchmarks.plain.keras_fit"
    return steady_step(run_module(module, folder, arguments, environment=keras_2))


def ours(data: Path, features: int, cache: str, folder: Path) -> Sample:
    """Train the same with Trainshed."""
    shuffle: dict[str, JsonValue] = {"mode": "local", "bufferSize": 5_000}
    epochs = trainingrun.train_epochs(
        folder,
        "benchmarks.ours.keras_epochs:train",
        {"features": features, "hidden": [*HIDDEN]},
        framework="tensorflow",
        epochs=EPOCHS,
        batchSize=BATCH,
        data=trainingrun.dataset(data, cache=cache, shuffle=shuffle),
    )
    return steady_step(epochs)


def steady_step(epochs: list[dict[str, float]]) -> Sample:
    """Return the milliseconds of a step, the median of all epochs but the first."""
    seconds = [epoch["steadySeconds"] / epoch["steps"] for epoch in epochs[1:]]
    return {"milliseconds": 1000 * statistics.median(seconds)}
