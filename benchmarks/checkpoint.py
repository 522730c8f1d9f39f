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
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

MEGABYTES = (16, 256)
PAUSE_SECONDS = 2.5
STEPS_BETWEEN = 10
BATCH_SIZE = 64
REPORTS = 12
# Reports that find the queue empty and wait for nobody.
UNHINDERED = 2


def main() -> None:
    """Measure all sides."""
    given = options(__doc__)
    count = 3 if given.quick else 5
    data = rows_for(count, given.cache)
    sides = {
        "torch.save": partial(torch_save, count),
        "Ray": partial(ray_reports, count),
        "ours": partial(ours, data),
    }
    samples = in_turn(sides, given)
    figures = [figure for size in MEGABYTES for figure in compare(size, samples)]
    plain_rate = samples.of("Ray", "metrics")
    rate = samples.of("ours", "metrics")
    figures += [
        Figure("Ray, metrics alone", "reports/s", plain_rate),
        Figure(
            "ours, metrics alone", "reports/s", rate, ("Ray", plain_rate), Target("value", ">=", 5)
        ),
    ]
    publish("checkpoint", figures, samples, given)


def rows_for(count: int, cache: Path) -> Path:
    """Return the rows of as many checkpoints."""
    # Some steps more, so that the last checkpoint is not that of the run's end too.
    steps = count * STEPS_BETWEEN + STEPS_BETWEEN // 2
    return rows.make(rows.Shape("small", steps * BATCH_SIZE, 64), cache)


def compare(megabytes: int, samples: Samples) -> list[Figure]:
    """Return the lines of one size."""
    name = f"{megabytes} MB"
    save = samples.of("torch.save", name)
    copy, report = samples.of("ours", f"copy {name}"), samples.of("ours", f"report {name}")
    both = [mine + told for mine, told in zip(copy, report, strict=True)]
    limit = Target("value", "<=", 50 * max(1, megabytes / 256))
    return [
        Figure(f"{name}: torch.save", "ms", save),
        Figure(f"{name}: Ray SYNC", "ms", samples.of("Ray", f"sync {name}"), ("torch.save", save)),
        Figure(
            f"{name}: Ray ASYNC", "ms", samples.of("Ray", f"async {name}"), ("torch.save", save)
        ),
        Figure(f"{name}: ours", "ms", both, ("torch.save", save)),
        Figure("  of it the copy", "ms", copy, None, limit),
        Figure("  of it the report", "ms", report, None, Target("value", "<=", 10)),
    ]


def torch_save(count: int, folder: Path) -> Sample:
    """Save without anything else."""
    found = json.loads(output_of("benchmarks.plain.torch_save", folder, _options(folder, count)))
    return {f"{size} MB": _milliseconds(found[str(size)]) for size in MEGABYTES}


def ray_reports(count: int, folder: Path) -> Sample:
    """Save and report to Ray with its defaults."""
    out = folder / "seconds.json"
    options = {**_options(folder, count), "out": out, "reports": REPORTS}
    output_of("benchmarks.plain.ray_reports", folder, options)
    found = json.loads(out.read_text(encoding="utf-8"))
    return {
        f"{mode} {size} MB": _milliseconds(found[f"{mode}/{size}"])
        for mode in ("sync", "async")
        for size in MEGABYTES
    } | {"metrics": _rate(found["metrics"])}


def ours(data: Path, folder: Path) -> Sample:
    """Write the same checkpoints with us."""
    sample: Sample = {}
    for size in MEGABYTES:
        place = folder / str(size)
        place.mkdir()
        sample |= ours_of(size, data, place)
    return sample


def ours_of(megabytes: int, data: Path, folder: Path) -> Sample:
    """Write those of one size."""
    out = folder / "reports.json"
    run = trainingrun.train(folder, spec(data, megabytes, out))
    found = json.loads(out.read_text(encoding="utf-8"))
    copies = [
        float(str(event["blockedSeconds"]))
        for event in run.events
        if event["event"] == "checkpoint" and int(str(event["step"])) % STEPS_BETWEEN == 0
    ]
    return {
        f"copy {megabytes} MB": _milliseconds(copies),
        f"report {megabytes} MB": _milliseconds(found["checkpoints"]),
        "metrics": _rate(found["metrics"]),
    }


def spec(data: Path, megabytes: int, out: Path) -> dict[str, JsonValue]:
    """Return a run that writes a checkpoint every few steps, to the end of the rows."""
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


def _options(folder: Path, count: int) -> dict[str, object]:
    return {"storage": folder, "count": count, "pause": PAUSE_SECONDS, "megabytes": MEGABYTES}


def _milliseconds(seconds: list[float]) -> float:
    return 1000 * statistics.median(seconds[1:])


def _rate(seconds: list[float]) -> float:
    """Return calls a second, once the queue is full."""
    return (len(seconds) - UNHINDERED) / sum(seconds[UNHINDERED:])


if __name__ == "__main__":
    main()
