"""Whole job, process start to end: torchrun, the guides of Ray, an empty Ray job, ours.

20,000 rows of 3072 numbers in Parquet, MLP 3072-256-10, batch size 128, 2 workers, 3 epochs, a
checkpoint after each. Every side reads the files; ours also writes its report.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import PYTHON, program_words, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import JsonValue

EPOCHS = 3
BATCH_SIZE = 128


def main() -> None:
    """Measure all sides."""
    given = options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if given.quick else rows.CIFAR
    data = rows.make(shape, given.cache)
    sizes = {"data": data, "batch_size": BATCH_SIZE, "epochs": EPOCHS}
    ray_sizes = {**sizes, "features": shape.features}
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]

    def plain(program: list[str], options: dict[str, object], folder: Path) -> Sample:
        words = program_words({**options, "out": folder}, folder / "found.json")
        return {"seconds": seconds_of([PYTHON, "-m", *program, *words])}

    def ours(folder: Path) -> Sample:
        run = trainingrun.train(folder, spec(data, shape.features))
        buckets = ("starting", "training", "waitingForData", "checkpointing", "stopping")
        return {"seconds": run.seconds, **{bucket: run.spent(bucket) for bucket in buckets}}

    sides: dict[str, Callable[[Path], Sample]] = {
        "torchrun": partial(plain, [*launcher, "benchmarks.plain.torchrun_ddp"], sizes),
        "Ray Data": partial(plain, ["benchmarks.plain.ray_data"], ray_sizes),
        "Ray empty": partial(plain, ["benchmarks.plain.ray_empty"], {}),
        "ours": ours,
    }
    samples = in_turn(sides, given)
    seconds = {side: samples.of(side, "seconds") for side in sides}
    mine = seconds["ours"]
    figures = [
        Figure("torchrun, plain DDP", "s", seconds["torchrun"]),
        Figure("Ray Train + Ray Data, as guides write it", "s", seconds["Ray Data"]),
        Figure("Ray's empty job", "s", seconds["Ray empty"]),
        Figure("ours", "s", mine, ("torchrun", seconds["torchrun"]), Target("ratio", "<=", 2)),
        Figure("ours", "s", mine, ("Ray Train + Ray Data", seconds["Ray Data"])),
        Figure("ours", "s", mine, ("Ray's empty job", seconds["Ray empty"])),
        Figure("  of it until the loop begins", "s", samples.of("ours", "starting")),
        Figure("  of it training", "s", samples.of("ours", "training")),
    ]
    publish("whole_job", figures, samples, given)


def spec(data: Path, features: int) -> dict[str, JsonValue]:
    """Return the same job for us: the tabular program, no line of code."""
    return {
        "train": "trainshed.programs.tabular:train",
        "config": {
            "features": ["x"],
            "inputs": features,
            "label": "y",
            "classes": rows.CLASSES,
            "widths": [256],
        },
        "epochs": EPOCHS,
        "batchSize": BATCH_SIZE,
        "data": trainingrun.dataset(data, shuffle={"mode": "local", "bufferSize": 5_000}),
        "workers": {"count": 2, "resources": {"cpu": 1}},
    }


if __name__ == "__main__":
    main()
