"""Rows/s of ours, streamed and cached, against torch's DataLoader and plain Ray Data.

The same files on all sides, three epochs in file order, one rank that takes batches without
training on them. Steady rates exclude the wait for the first batch of an epoch, whole rates include
it. "By default" is a run without `cache`, which caches rows that fit. Parquet has rows of 64
numbers, CSV of 16, and images are decoded to 224x224; the work on them is cheap or heavy.
DataLoader reads tables with an iterable dataset, a file at a time, and images one by one with
Pillow; once without workers beside a busy core. Imports, Ray and the processes of data tasks have
started before the measurement, but the workers of a DataLoader start in the first epoch.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    in_turn,
    options_in,
    parser_of,
    publish,
)
from benchmarks.plain.case import list_cases
from benchmarks.processes import busy_cores, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.plain.case import Case

EPOCHS, CPUS = 3, 2
TIMEOUT_SECONDS = 3_600
# Names of the plain sides as the tables have them, by what their programs call them.
NAMES = {
    "0": "DataLoader, 0 workers",
    "1": "DataLoader, 1 worker",
    "2": "DataLoader, 2 workers",
    "ray": "Ray Data",
}
BESIDE = "DataLoader, 0 workers, beside a busy core"
# What each way of ours is held against, and the least ratio.
AGAINST: dict[str, tuple[tuple[str, float], ...]] = {
    "by default": ((NAMES["1"], 1.0), (NAMES["2"], 1.0), (BESIDE, 0.9), (NAMES["ray"], 1.3)),
    "streamed, 1 CPU": ((NAMES["1"], 1.0), (BESIDE, 0.9)),
    "streamed, 2 CPUs": ((NAMES["2"], 1.0), (NAMES["ray"], 1.3)),
}
CACHED, LEAST_CACHED = "cached", 0.95
RATES = ("steady", "whole")


def main() -> None:
    """Measure all formats and sizes."""
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100], help="of the files")
    parser.add_argument("--formats", nargs="+", choices=stored.FORMATS, default=stored.FORMATS)
    asked = parser.parse_args()
    given = options_in(asked)
    sizes = [10] if given.quick else asked.megabytes
    made = [stored.cases(form, size, given.cache) for size in sizes for form in asked.formats]
    cases = list(chain.from_iterable(made))
    sides = {
        "DataLoader": partial(torch, cases, [0, 1, 2]),
        "DataLoader beside a busy core": partial(beside, cases),
        "Ray Data": partial(ray, cases),
        "ours": partial(ours, cases),
    }
    samples = in_turn(sides, given)
    publish("loaders", [each for case in cases for each in compare(case, samples)], samples, given)


def compare(case: Case, samples: Samples) -> list[Figure]:
    """Return the lines of a case."""
    figures = []
    plain = {
        **dict.fromkeys(NAMES.values(), "DataLoader"),
        BESIDE: "DataLoader beside a busy core",
        NAMES["ray"]: "Ray Data",
    }

    def rates(side: str, way: str, which: str) -> list[float]:
        return samples.of(side, f"{case.name}: {way}, {which}")

    for which in RATES:
        found = {way: rates(side, way, which) for way, side in plain.items()}
        unit, title = "rows/s", f"{case.name}, {which}"
        figures += [Figure(f"{title}: {way}", unit, rate) for way, rate in found.items()]
        for way, others in AGAINST.items():
            name, mine = f"{title}: ours, {way}", rates("ours", way, which)
            figures += [
                Figure(name, unit, mine, (other, found[other]), Target("ratio", ">=", least))
                for other, least in others
            ]
    later = [rates(side, way, "later") for way, side in plain.items() if way != BESIDE]
    best = [max(each) for each in zip(*later, strict=True)]
    name, target = f"{case.name}, from epoch 2 on", Target("ratio", ">=", LEAST_CACHED)
    mine = rates("ours", CACHED, "later")
    return [*figures, Figure(f"{name}: ours, cached", "rows/s", mine, ("best plain", best), target)]


def torch(cases: Sequence[Case], workers: Sequence[int], folder: Path) -> Sample:
    """Run torch's DataLoader with each of so many workers."""
    options = {"num_epochs": EPOCHS, "workers": workers}
    return _run("benchmarks.plain.torch_loading", options, cases, folder)


def beside(cases: Sequence[Case], folder: Path) -> Sample:
    """Run it without workers while another process counts."""
    with busy_cores(1):
        found = torch(cases, [0], folder)
    return {name.replace(NAMES["0"], BESIDE): rate for name, rate in found.items()}


def ray(cases: Sequence[Case], folder: Path) -> Sample:
    """Run Ray Data."""
    options = {"num_epochs": EPOCHS, "cpus": CPUS}
    return _run("benchmarks.plain.ray_loading", options, cases, folder)


def ours(cases: Sequence[Case], folder: Path) -> Sample:
    """Run each of our ways."""
    options = {"epochs": EPOCHS, "folder": folder}
    return _run("benchmarks.ours.loading", options, cases, folder)


def _run(module: str, options: Mapping[str, object], cases: Sequence[Case], folder: Path) -> Sample:
    """Return the rates of a program's ways by case."""
    found = json.loads(
        output_of(
            module,
            folder,
            {"listed": list_cases(cases), **options},
            timeout_seconds=TIMEOUT_SECONDS,
        )
    )
    return {
        f"{case.name}: {NAMES.get(way, way)}, {which}": rate
        for case in cases
        for way, epochs in found[case.name].items()
        for which, rate in rates_of(epochs, case.batch_size).items()
    }


def rates_of(epochs: Sequence[dict[str, float]], batch_size: int) -> Sample:
    """Return rows/s of all epochs, steady and whole, of those after the first, and of each."""
    rows = [batch_size * epoch["steps"] for epoch in epochs]
    seconds = [epoch["firstSeconds"] + epoch["steadySeconds"] for epoch in epochs]
    steady = sum(epoch["steadySeconds"] for epoch in epochs)
    each = {f"epoch {n + 1}": rows[n] / seconds[n] for n in range(len(epochs))}
    return {
        "steady": (sum(rows) - batch_size * len(epochs)) / steady,
        "whole": sum(rows) / sum(seconds),
        "later": sum(rows[1:]) / sum(seconds[1:]),
        **each,
    }


if __name__ == "__main__":
    main()
