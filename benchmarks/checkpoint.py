"""How long checkpoints of 16 and 256 MB block: ours, torch.save, reports to Ray; and reports/s.

A checkpoint every 2.5 s, so that the one before is written. The first of each size does not count,
because ours allocates its buffers then. MB are 2**20 bytes.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Samples, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

MEGABYTES = (16, 256)
PAUSE_SECONDS = 2.5
STEPS_BETWEEN = 10
BATCH_SIZE = 64
REPORTS = 12
# The first reports find an empty queue and do not wait.
UNQUEUED = 2


def main() -> None:
    """Measure all sides."""
    options = parse_options(__doc__)
    count = 3 if options.quick else 5
    # A few steps more, so that the last checkpoint is not also that of the end of the run.
    steps = count * STEPS_BETWEEN + STEPS_BETWEEN // 2
    data = rows.make(rows.Shape("small", steps * BATCH_SIZE, 64), options.cache)
    sides = {
        "torch.save": partial(torch_save, count),
        "Ray": partial(ray_reports, count),
        "ours": partial(ours, data),
    }
    samples = run_sides(sides, options)
    ray_rate, rate = (samples.of(side, "metrics") for side in ("Ray", "ours"))
    least = Target("value", ">=", 5)
    figures = [
        *(figure for size in MEGABYTES for figure in compare(size, samples)),
        Figure("Ray, metrics only", "reports/s", ray_rate),
        Figure("ours, metrics only", "reports/s", rate, ("Ray", ray_rate), least),
    ]
    publish("checkpoint", figures, samples, options)


def compare(megabytes: int, samples: Samples) -> list[Figure]:
    """Return the figures of one size."""
    name = f"{megabytes} MB"
    save, sync, background = (
        samples.of(side, key)
        for side, key in (("torch.save", name), ("Ray", f"sync {name}"), ("Ray", f"async {name}"))
    )
    copy, report = samples.of("ours", f"copy {name}"), samples.of("ours", f"report {name}")
    both = [sum(pair) for pair in zip(copy, report, strict=True)]
    limit = Target("value", "<=", 50 * max(1, megabytes / 256))
    return [
        Figure(f"{name}: torch.save", "ms", save),
        Figure(f"{name}: Ray SYNC", "ms", sync, ("torch.save", save)),
        Figure(f"{name}: Ray ASYNC", "ms", background, ("torch.save", save)),
        Figure(f"{name}: ours", "ms", both, ("torch.save", save)),
        Figure("  copy", "ms", copy, None, limit),
        Figure("  report", "ms", report, None, Target("value", "<=", 10)),
    ]


def torch_save(count: int, folder: Path) -> Sample:
    """Save with torch.save only."""
    seconds = run_module("benchmarks.plain.torch_save", folder, _arguments(folder, count))
    return {f"{size} MB": _milliseconds(seconds[str(size)]) for size in MEGABYTES}


def ray_reports(count: int, folder: Path) -> Sample:
    """Save and report to Ray with its defaults."""
    arguments = {**_arguments(folder, count), "reports": REPORTS}
    seconds = run_module("benchmarks.plain.ray_reports", folder, arguments)
    blocked = {
        f"{mode} {size} MB": _milliseconds(seconds[f"{mode}/{size}"])
        for mode in ("sync", "async")
        for size in MEGABYTES
    }
    return {**blocked, "metrics": _rate(seconds["metrics"])}


def ours(data: Path, folder: Path) -> Sample:
    """Write the same checkpoints with Trainshed."""
    sample: Sample = {}
    for size in MEGABYTES:
        (folder / str(size)).mkdir()
        sample |= write_checkpoints(size, data, folder / str(size))
    return sample


def write_checkpoints(megabytes: int, data: Path, folder: Path) -> Sample:
    """Train with checkpoints of one size."""
    out = folder / "reports.json"
    run = trainingrun.train(folder, make_spec(data, megabytes, out))
    seconds = json.loads(out.read_text(encoding="utf-8"))
    copies = [
        event["blockedSeconds"]
        for event in run.events
        if event["event"] == "checkpoint" and event["step"] % STEPS_BETWEEN == 0
    ]
    return {
        f"copy {megabytes} MB": _milliseconds(copies),
        f"report {megabytes} MB": _milliseconds(seconds["checkpoints"]),
        "metrics": _rate(seconds["metrics"]),
    }


def make_spec(data: Path, megabytes: int, out: Path) -> dict[str, JsonValue]:
    """Return a run of one epoch that writes a checkpoint every STEPS_BETWEEN steps."""
    return {
        "train": "benchmarks.ours.reports:train",
        "config": {
            "megabytes": megabytes,
            "pause": PAUSE_SECONDS / STEPS_BETWEEN,
            "reports": REPORTS,
            "out": str(out),
        },
        "epochs": 1,
        "batchSize": BATCH_SIZE,
        "data": trainingrun.dataset(data),
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0, "everySteps": STEPS_BETWEEN, "keep": 2},
    }


def _arguments(folder: Path, count: int) -> dict[str, object]:
    return {"storage": folder, "count": count, "pause": PAUSE_SECONDS, "megabytes": MEGABYTES}


def _milliseconds(seconds: list[float]) -> float:
    return 1000 * statistics.median(seconds[1:])


def _rate(seconds: list[float]) -> float:
    """Return the reports/s with a full queue."""
    return (len(seconds) - UNQUEUED) / sum(seconds[UNQUEUED:])
