"""Steady rows/s of ours, streamed and cached, against a plain loop over tensors in memory.

One worker and one thread on each side. The first epoch does not count, nor the wait for the first
batch of an epoch, which `first_batch` measures. Two MLPs: 64-512-512-10 with batch size 1024, and
3072-256-10 with batch size 128. The plain loop also runs while another process keeps the second
core busy, because in ours Ray and its data tasks use that core.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import busy_cores, output_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

EPOCHS = 5
LOCAL: dict[str, JsonValue] = {"mode": "local", "bufferSize": 5_000}
GLOBAL: dict[str, JsonValue] = {"mode": "global"}
# How ours is fed: cache and shuffle.
WAYS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "streaming": ("none", LOCAL),
    "cached in workers": ("workers", LOCAL),
    "cached as objects": ("objects", GLOBAL),
}
# What the rate should be at least of the loop's, alone on the machine and beside a busy core.
LEAST_STREAMING, LEAST_CACHED, LEAST_BESIDE = 0.80, 0.95, 0.95


@dataclass(frozen=True)
class Job:
    """A network and its rows."""

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
    """Measure both networks."""
    given = options(__doc__)
    figures: list[Figure] = []
    everything = Samples()
    for job in QUICK if given.quick else JOBS:
        data = rows.make(job.shape, given.cache)
        sides = {
            f"{job.name} plain": partial(plain, job, data),
            f"{job.name} beside": partial(plain_beside, job, data),
        } | {
            f"{job.name} {way}": partial(ours, job, data, cache, shuffle)
            for way, (cache, shuffle) in WAYS.items()
        }
        samples = in_turn(sides, given)
        everything.by_side.update(samples.by_side)
        figures += compare(job, samples)
    publish("ceiling", figures, everything, given)


def compare(job: Job, samples: Samples) -> list[Figure]:
    """Return the lines of one network."""
    loop, beside = (samples.of(f"{job.name} {side}", "rate") for side in ("plain", "beside"))
    figures = [
        Figure(f"{job.name}: plain loop", "rows/s", loop),
        Figure(f"{job.name}: the same beside a busy core", "rows/s", beside),
    ]
    for way in WAYS:
        side = f"{job.name} {way}"
        rate, what = samples.of(side, "rate"), f"{job.name}: ours, {way}"
        least = LEAST_STREAMING if way == "streaming" else LEAST_CACHED
        busy = Target("ratio", ">=", LEAST_BESIDE)
        figures += [
            Figure(what, "rows/s", rate, ("plain loop", loop), Target("ratio", ">=", least)),
            Figure(what, "rows/s", rate, ("beside a busy core", beside), busy),
            Figure("  data wait", "%", samples.of(side, "waited"), None, Target("value", "<=", 3)),
        ]
    return figures


def plain(job: Job, data: Path, folder: Path) -> Sample:
    """Run the loop over tensors in memory."""
    out = folder / "epochs.json"
    paths = {"data": data, "out": out}
    sizes = {"hidden": job.hidden, "batch_size": job.batch_size, "epochs": EPOCHS}
    output_of("benchmarks.plain.in_memory", folder, paths | sizes)
    return steady(out, job.batch_size)


def plain_beside(job: Job, data: Path, folder: Path) -> Sample:
    """Run the loop while another process counts."""
    with busy_cores(1):
        return plain(job, data, folder)


def ours(job: Job, data: Path, cache: str, shuffle: dict[str, JsonValue], folder: Path) -> Sample:
    """Run the same with us."""
    out = folder / "epochs.json"
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.epochs:train",
        "config": {"features": job.shape.features, "hidden": list(job.hidden), "out": str(out)},
        "epochs": EPOCHS,
        "batchSize": job.batch_size,
        "data": trainingrun.dataset(data, cache=cache, shuffle=shuffle),
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0},
    }
    trainingrun.train(folder, spec)
    return steady(out, job.batch_size)


def steady(out: Path, batch_size: int) -> Sample:
    """Return rows a second and the percentage of waiting, medians over epochs but the first."""
    epochs = json.loads(out.read_text(encoding="utf-8"))["epochs"][1:]
    return {
        "rate": statistics.median(e["steps"] * batch_size / e["steadySeconds"] for e in epochs),
        "waited": statistics.median(100 * e["waitedSeconds"] / e["steadySeconds"] for e in epochs),
    }


if __name__ == "__main__":
    main()
