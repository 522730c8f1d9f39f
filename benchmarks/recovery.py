"""A worker is killed: seconds to the next step and repeated steps, ours and plain Ray Train.

Two workers, 20 ms steps, a checkpoint of less than 1 MB every 16 steps, data in memory; rank 1 dies
by SIGKILL after step 40.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.plain.steplog import read_recovery
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

KILL_AT = 40
EVERY_STEPS = 16
PAUSE_SECONDS = 0.02


def main() -> None:
    """Measure both sides."""
    given = options(__doc__)
    small = make_rows(given.cache)
    samples = in_turn({"Ray": partial(plain, small), "ours": partial(ours, small)}, given)
    figures: list[Figure] = []
    for name, unit, target in (
        ("seconds", "s", Target("value", "<=", 3.5)),
        ("redone", "steps", None),
    ):
        theirs, mine = samples.of("Ray", name), samples.of("ours", name)
        figures += [
            Figure(f"Ray Train: {name}", unit, theirs),
            Figure(f"ours: {name}", unit, mine, ("Ray Train", theirs), target),
        ]
    publish("recovery", figures, samples, given)


def make_rows(cache: Path) -> Path:
    """Return the rows."""
    return rows.make(rows.Shape("small", 6_400, 64), cache)


def plain(data: Path, folder: Path) -> Sample:
    """Lose a worker with Ray Train."""
    paths: dict[str, object] = {"data": data, "notes": folder, "storage": folder}
    how = {"every": EVERY_STEPS, "kill_at": KILL_AT, "pause": PAUSE_SECONDS}
    output_of("benchmarks.plain.ray_recovery", folder, paths | how)
    return read_recovery(folder)


def ours(data: Path, folder: Path) -> Sample:
    """Lose a worker with us."""
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.recovery:train",
        "config": {"notes": str(folder), "killAt": KILL_AT, "pause": PAUSE_SECONDS},
        "epochs": 1,
        "batchSize": 64,
        "data": trainingrun.dataset(data),
        "workers": {"count": 2, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0, "everySteps": EVERY_STEPS},
    }
    trainingrun.train(folder, spec)
    return read_recovery(folder)


if __name__ == "__main__":
    main()
