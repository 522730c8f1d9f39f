"""Seconds of 100 rounds of XGBoost: ours on two workers, plain XGBoost with as many threads.

A million rows of 50 features, without the start and the reading of rows. Ours has two workers of
one thread. Plain XGBoost has two processes of one thread, or one process of two, which exchanges no
histograms.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import JsonValue

ROUNDS, WORKERS = 100, 2
TABLE, QUICK = rows.Shape("table", 1_000_000, 50), rows.Shape("table", 100_000, 50)
PARAMS: dict[str, JsonValue] = {
    "objective": "reg:squarederror",
    "max_depth": 6,
    "eta": 0.1,
    "max_bin": 256,
}
# With `subsample`, ours starts a new random state in each round (docs/decisions/0024).
VARIANTS: dict[str, dict[str, JsonValue]] = {
    "all rows": {},
    "half of the rows": {"subsample": 0.5},
}


def main() -> None:
    """Measure both variants."""
    options = parse_options(__doc__)
    data = rows.make(QUICK if options.quick else TABLE, options.cache)
    runs: dict[str, Callable[..., Sample]] = {
        "one": partial(plain, 1, WORKERS),
        "two": partial(plain, WORKERS, 1),
        "ours": ours,
    }
    sides = {
        f"{side}, {variant}": partial(run, data, {**PARAMS, **params})
        for variant, params in VARIANTS.items()
        for side, run in runs.items()
    }
    samples = run_sides(sides, options)
    figures = []
    for variant in VARIANTS:
        one, two, trainshed = (samples.of(f"{side}, {variant}", "seconds") for side in runs)
        name = f"ours, {WORKERS} workers, {variant}"
        processes, target = f"plain XGBoost, {WORKERS} processes", Target("ratio", "<=", 1.15)
        figures += [
            Figure(f"plain XGBoost, one process, {WORKERS} threads, {variant}", "s", one),
            Figure(f"{processes}, {variant}", "s", two),
            Figure(name, "s", trainshed, (processes, two), target),
            Figure(name, "s", trainshed, ("plain XGBoost, one process", one)),
        ]
    publish("boosting", figures, samples, options)


def plain(
    ranks: int, threads: int, data: Path, params: dict[str, JsonValue], folder: Path
) -> Sample:
    """Return the seconds of plain XGBoost, in `ranks` processes with `threads` threads each."""
    arguments = {
        "data": data,
        "out": folder / "seconds",
        "params": params,
        "rounds": ROUNDS,
        "ranks": ranks,
        "threads": threads,
    }
    environment = {"OMP_NUM_THREADS": str(threads)}  # a limit on XGBoost's nthread
    module = "benchmarks.plain.xgboost_rounds"
    return {"seconds": run_module(module, folder, arguments, environment=environment)}


def ours(data: Path, params: dict[str, JsonValue], folder: Path) -> Sample:
    """Return the seconds of a run."""
    out = folder / "seconds.json"
    trainingrun.train(
        folder,
        {
            "train": "benchmarks.ours.rounds:train",
            "framework": "xgboost",
            "config": {"params": params, "rounds": ROUNDS, "out": str(out)},
            "data": trainingrun.dataset(data),
            "workers": {"count": WORKERS, "resources": {"cpu": 1}},
        },
    )
    return {"seconds": float(out.read_text(encoding="utf-8"))}
