"""A worker is killed: seconds to the next step and repeated steps, ours and plain Ray Train.

Two workers, 20 ms steps, a checkpoint of less than 1 MB every 16 steps, data in memory; rank 1 dies
by SIGKILL after step 40.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.plain.steplog import read_recovery
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

KILL_AT = 40
EVERY_STEPS = 16
PAUSE_SECONDS = 0.02
SHAPE = rows.Shape("small", 6_400, 64)


def main() -> None:
    """Measure both sides."""
    options = parse_options(__doc__)
    data = rows.make(SHAPE, options.cache)
    samples = run_sides({"Ray": partial(plain, data), "ours": partial(ours, data)}, options)
    figures: list[Figure] = []
    for name, key, unit, target in (
        ("seconds", "seconds", "s", Target("value", "<=", 3.5)),
        ("repeated", "redone", "steps", None),
    ):
        ray = samples.of("Ray", key)
        figures += [
            Figure(f"Ray Train: {name}", unit, ray),
            Figure(f"ours: {name}", unit, samples.of("ours", key), ("Ray Train", ray), target),
        ]
    publish("recovery", figures, samples, options)


def plain(data: Path, folder: Path) -> Sample:
    """Lose a worker of Ray Train."""
    paths: dict[str, object] = {"data": data, "notes": folder, "storage": folder}
    steps = {"every": EVERY_STEPS, "kill_at": KILL_AT, "pause": PAUSE_SECONDS}
    run_module("benchmarks.plain.ray_recovery", folder, paths | steps)
    return read_recovery(folder)


def ours(data: Path, folder: Path) -> Sample:
    """Lose a worker of Trainshed."""
    trainingrun.train(
        folder,
        {
            "train": "benchmarks.ours.recovery:train",
            "config": {"notes": str(folder), "killAt": KILL_AT, "pause": PAUSE_SECONDS},
            "epochs": 1,
            "batchSize": 64,
            "data": trainingrun.dataset(data),
            "workers": {"count": 2, "resources": {"cpu": 1}},
            "checkpoint": {"everyEpochs": 0, "everySteps": EVERY_STEPS},
        },
    )
    return read_recovery(folder)
