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

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    parse_options,
    parser_for,
    publish,
    run_sides,
)
from benchmarks.processes import busy_cores, run_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.plain.case import Case

EPOCHS, CPUS = 3, 2
TIMEOUT_SECONDS = 3_600
# Names in the table of the keys that the plain programs return.
NAMES = {
    "0": "DataLoader, 0 workers",
    "1": "DataLoader, 1 worker",
    "2": "DataLoader, 2 workers",
    "ray": "Ray Data",
}
BESIDE = "DataLoader, 0 workers, beside a busy core"
# Side of each plain loader.
PLAIN = {
    **dict.fromkeys(NAMES.values(), "DataLoader"),
    BESIDE: "DataLoader beside a busy core",
    NAMES["ray"]: "Ray Data",
}
# What each of our loaders is compared with, and the least ratio.
AGAINST: dict[str, tuple[tuple[str, float], ...]] = {
    "by default": ((NAMES["1"], 1.0), (NAMES["2"], 1.0), (BESIDE, 0.9), (NAMES["ray"], 1.3)),
    "streamed, 1 CPU": ((NAMES["1"], 1.0), (BESIDE, 0.9)),
    "streamed, 2 CPUs": ((NAMES["2"], 1.0), (NAMES["ray"], 1.3)),
}
MIN_CACHED = 0.95
RATES = ("steady", "whole")


def main() -> None:
    """Measure all formats and sizes."""
    parser = parser_for(__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100], help="file sizes")
    parser.add_argument("--formats", nargs="+", choices=stored.FORMATS, default=stored.FORMATS)
    options = parse_options(parser)
    sizes = [10] if options.quick else options.megabytes
    cases = stored.cases(options.formats, sizes, options.cache)
    ray_options = {"num_epochs": EPOCHS, "cpus": CPUS}
    sides = {
        "DataLoader": partial(run_loaders, "plain.torch_loading", torch_workers(0, 1, 2), cases),
        "DataLoader beside a busy core": partial(torch_beside_busy_core, cases),
        "Ray Data": partial(run_loaders, "plain.ray_loading", ray_options, cases),
        "ours": partial(ours, cases),
    }
    samples = run_sides(sides, options)
    figures = [figure for case in cases for figure in compare(case, samples)]
    publish("loaders", figures, samples, options)


def compare(case: Case, samples: Samples) -> list[Figure]:
    """Return the figures of a case."""

    def rate(side: str, loader: str, name: str) -> list[float]:
        return samples.of(side, f"{case.name}: {loader}, {name}")

    figures = []
    for name in RATES:
        title = f"{case.name}, {name}"
        plain = {loader: rate(side, loader, name) for loader, side in PLAIN.items()}
        figures += [Figure(f"{title}: {loader}", "rows/s", each) for loader, each in plain.items()]
        for loader, others in AGAINST.items():
            values = rate("ours", loader, name)
            for other, least in others:
                target = Target("ratio", ">=", least)
                against = (other, plain[other])
                figures.append(
                    Figure(f"{title}: ours, {loader}", "rows/s", values, against, target)
                )
    later = [rate(side, loader, "later") for loader, side in PLAIN.items() if loader != BESIDE]
    best = ("best plain", [max(each) for each in zip(*later, strict=True)])
    name, target = f"{case.name}, from epoch 2 on: ours, cached", Target("ratio", ">=", MIN_CACHED)
    return [*figures, Figure(name, "rows/s", rate("ours", "cached", "later"), best, target)]


def ours(cases: Sequence[Case], folder: Path) -> Sample:
    """Run each of our loaders."""
    return run_loaders("ours.loading", {"epochs": EPOCHS, "folder": folder}, cases, folder)


def torch_beside_busy_core(cases: Sequence[Case], folder: Path) -> Sample:
    """Run DataLoader without workers while another process keeps a core busy."""
    with busy_cores(1):
        sample = run_loaders("plain.torch_loading", torch_workers(0), cases, folder)
    return {name.replace(NAMES["0"], BESIDE): rate for name, rate in sample.items()}


def torch_workers(*workers: int) -> dict[str, object]:
    """Return the arguments of DataLoader with each of these numbers of workers."""
    return {"num_epochs": EPOCHS, "workers": workers}


def run_loaders(
    module: str, arguments: Mapping[str, object], cases: Sequence[Case], folder: Path
) -> Sample:
    """Run a program in `benchmarks`; return the rates of each case and loader."""
    arguments = {**arguments, "cases": [asdict(case) for case in cases]}
    times = run_module(f"benchmarks.{module}", folder, arguments, timeout_seconds=TIMEOUT_SECONDS)
    return {
        f"{case.name}: {NAMES.get(loader, loader)}, {name}": rate
        for case in cases
        for loader, epochs in times[case.name].items()
        for name, rate in rates_of(epochs, case.batch_size).items()
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
