"""Steady rows/s of ours, streamed and cached, against a plain loop over tensors in memory.

One worker and one thread on each side. The first epoch does not count, nor the wait for the first
batch of an epoch, which `first_batch` measures. Two MLPs: 64-512-512-10 with batch size 1024, and
3072-256-10 with batch size 128. The plain loop also runs while another process keeps the second
core busy, because in ours Ray and its data tasks use that core.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Samples, Target, parse_options, publish, run_sides
from benchmarks.processes import busy_cores, run_module

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

EPOCHS = 5
LOCAL: dict[str, JsonValue] = {"mode": "local", "bufferSize": 5_000}
# `cache` and `shuffle` of each variant of ours.
VARIANTS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "streaming": ("none", LOCAL),
    "cached in workers": ("workers", LOCAL),
    "cached as objects": ("objects", {"mode": "global"}),
}
# Least ratio to the plain loop, alone on the machine and beside a busy core.
MIN_STREAMING, MIN_CACHED, MIN_BESIDE = 0.80, 0.95, 0.95


@dataclass(frozen=True)
class Job:
    """An MLP and its rows."""

    shape: rows.Shape
    hidden: tuple[int, ...]
    batch_size: int

    @property
    def name(self) -> str:
        """Return the widths of its layers."""
        return "-".join(map(str, (self.shape.features, *self.hidden, rows.CLASSES)))


JOBS = (Job(rows.NARROW, (512, 512), 1024), Job(rows.CIFAR, (256,), 128))
QUICK = (Job(rows.Shape("quick", 20_480, 64), (512, 512), 1024),)


def main() -> None:
    """Measure both MLPs."""
    options = parse_options(__doc__)
    figures: list[Figure] = []
    all_samples = Samples()
    for job in QUICK if options.quick else JOBS:
        data = rows.make(job.shape, options.cache)
        sides = {
            f"{job.name} plain": partial(plain, job, data),
            f"{job.name} beside": partial(plain_beside_busy_core, job, data),
        } | {
            f"{job.name} {variant}": partial(ours, job, data, cache, shuffle)
            for variant, (cache, shuffle) in VARIANTS.items()
        }
        samples = run_sides(sides, options)
        all_samples.by_side.update(samples.by_side)
        figures += compare(job, samples)
    publish("ceiling", figures, all_samples, options)


def compare(job: Job, samples: Samples) -> list[Figure]:
    """Return the figures of one MLP."""
    loop, beside = (samples.of(f"{job.name} {side}", "rate") for side in ("plain", "beside"))
    figures = [
        Figure(f"{job.name}: plain loop", "rows/s", loop),
        Figure(f"{job.name}: plain loop beside a busy core", "rows/s", beside),
    ]
    for variant in VARIANTS:
        side = f"{job.name} {variant}"
        rate, name = samples.of(side, "rate"), f"{job.name}: ours, {variant}"
        least = MIN_STREAMING if variant == "streaming" else MIN_CACHED
        busy = Target("ratio", ">=", MIN_BESIDE)
        figures += [
            Figure(name, "rows/s", rate, ("plain loop", loop), Target("ratio", ">=", least)),
            Figure(name, "rows/s", rate, ("beside a busy core", beside), busy),
            Figure("  data wait", "%", samples.of(side, "waited"), None, Target("value", "<=", 3)),
        ]
    return figures


def plain(job: Job, data: Path, folder: Path) -> Sample:
    """Run the loop over tensors in memory."""
    sizes = {"hidden": job.hidden, "batch_size": job.batch_size, "epochs": EPOCHS}
    epochs = run_module("benchmarks.plain.in_memory", folder, {"data": data, **sizes})
    return steady_rate(epochs, job.batch_size)


def plain_beside_busy_core(job: Job, data: Path, folder: Path) -> Sample:
    """Run the loop while another process keeps a core busy."""
    with busy_cores(1):
        return plain(job, data, folder)


def ours(job: Job, data: Path, cache: str, shuffle: dict[str, JsonValue], folder: Path) -> Sample:
    """Train the same with Trainshed."""
    epochs = trainingrun.train_epochs(
        folder,
        "benchmarks.ours.epochs:train",
        {"features": job.shape.features, "hidden": list(job.hidden)},
        epochs=EPOCHS,
        batchSize=job.batch_size,
        data=trainingrun.dataset(data, cache=cache, shuffle=shuffle),
    )
    return steady_rate(epochs, job.batch_size)


def steady_rate(epochs: list[dict[str, float]], batch_size: int) -> Sample:
    """Return rows/s and the percentage of data wait, medians over all epochs but the first."""
    return {
        "rate": statistics.median(e["steps"] * batch_size / e["steadySeconds"] for e in epochs[1:]),
        "waited": statistics.median(
            100 * e["waitedSeconds"] / e["steadySeconds"] for e in epochs[1:]
        ),
    }
