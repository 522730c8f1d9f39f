"""Whole job, process start to end: torchrun, the guides of Ray, an empty Ray job, ours.

20,000 rows of 3072 numbers in Parquet, MLP 3072-256-10, batch size 128, 2 workers, 3 epochs, a
checkpoint after each. Every side reads the files; ours also writes its report.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.processes import PYTHON, module_arguments, time_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

EPOCHS = 3
BATCH_SIZE = 128
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")


def main() -> None:
    """Measure all sides."""
    options = parse_options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if options.quick else rows.CIFAR
    data = rows.make(shape, options.cache)
    sizes = {"data": data, "batch_size": BATCH_SIZE, "epochs": EPOCHS}
    sides = {
        "torchrun": partial(plain, "torchrun_ddp", sizes, TORCHRUN),
        "Ray Data": partial(plain, "ray_data", {**sizes, "features": shape.features}, ()),
        "Ray empty": partial(plain, "ray_empty", {}, ()),
        "ours": partial(ours, make_spec(data, shape.features)),
    }
    samples = run_sides(sides, options)
    seconds = {side: samples.of(side, "seconds") for side in sides}
    ours_seconds = seconds["ours"]
    torchrun = ("torchrun", seconds["torchrun"])
    figures = [
        Figure("torchrun, plain DDP", "s", seconds["torchrun"]),
        Figure("Ray Train + Ray Data, as in their guides", "s", seconds["Ray Data"]),
        Figure("empty Ray job", "s", seconds["Ray empty"]),
        Figure("ours", "s", ours_seconds, torchrun, Target("ratio", "<=", 2)),
        Figure("ours", "s", ours_seconds, ("Ray Train + Ray Data", seconds["Ray Data"])),
        Figure("ours", "s", ours_seconds, ("empty Ray job", seconds["Ray empty"])),
        Figure("  until the loop starts", "s", samples.of("ours", "starting")),
        Figure("  training", "s", samples.of("ours", "training")),
    ]
    publish("whole_job", figures, samples, options)


def plain(
    module: str, arguments: Mapping[str, object], launcher: Sequence[str], folder: Path
) -> Sample:
    """Run a plain program.

    Args:
        module: in `benchmarks.plain`.
        arguments: of its `main`.
        launcher: module and arguments of `python -m` that start the program.
        folder: that it writes to.
    """
    options = {**arguments, "out": folder}
    started = module_arguments(f"benchmarks.plain.{module}", options, folder / "result.json")
    return {"seconds": time_command([PYTHON, "-m", *launcher, *started])}


def ours(spec: Mapping[str, JsonValue], folder: Path) -> Sample:
    """Run the same job with Trainshed."""
    run = trainingrun.train(folder, spec)
    phases = ("starting", "training", "waitingForData", "checkpointing", "stopping")
    return {"seconds": run.seconds, **{phase: run.result["seconds"][phase] for phase in phases}}


def make_spec(data: Path, features: int) -> dict[str, JsonValue]:
    """Return the same job for the built-in tabular program."""
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
