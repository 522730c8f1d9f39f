"""Seconds of 100 rounds of boosting: ours on two workers, plain XGBoost with as many threads.

A million rows of 50 features; the start and the reading of rows are apart. Two workers of one
thread, and one process of two.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import PYTHON, seconds_of

if TYPE_CHECKING:
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
# A round that draws rows makes what draws anew (docs/decisions/0024).
KINDS: dict[str, dict[str, JsonValue]] = {"all rows": {}, "half of the rows": {"subsample": 0.5}}


def main() -> None:
    """Measure both kinds of rounds."""
    given = options(__doc__)
    data = rows.make(QUICK if given.quick else TABLE, given.cache)
    sides = {
        f"{side}, {kind}": partial(run, data, {**PARAMS, **more})
        for kind, more in KINDS.items()
        for side, run in (("plain", plain), ("ours", ours))
    }
    samples = in_turn(sides, given)
    figures = []
    for kind in KINDS:
        alone = samples.of(f"plain, {kind}", "seconds")
        both = samples.of(f"ours, {kind}", "seconds")
        figures += [
            Figure(f"plain XGBoost, {WORKERS} threads, {kind}", "s", alone),
            Figure(
                f"ours, {WORKERS} workers, {kind}",
                "s",
                both,
                ("plain XGBoost", alone),
                Target("ratio", "<=", 1.15),
            ),
        ]
    publish("boosting", figures, samples, given)


def plain(data: Path, params: dict[str, JsonValue], folder: Path) -> Sample:
    """Boost in one process."""
    out = folder / "seconds.json"
    words = ["--data", str(data), "--out", str(out), "--params", json.dumps(params)]
    counts = ["--rounds", str(ROUNDS), "--threads", str(WORKERS)]
    # OMP_NUM_THREADS is a bound for XGBoost, whatever nthread says.
    command = [PYTHON, "-m", "benchmarks.plain.xgboost_rounds", *words, *counts]
    seconds_of(command, threads=WORKERS)
    return {"seconds": float(out.read_text(encoding="utf-8"))}


def ours(data: Path, params: dict[str, JsonValue], folder: Path) -> Sample:
    """Boost as a run does."""
    out = folder / "seconds.json"
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.rounds:train",
        "framework": "xgboost",
        "config": {"params": params, "rounds": ROUNDS, "out": str(out)},
        "data": trainingrun.dataset(data),
        "workers": {"count": WORKERS, "resources": {"cpu": 1}},
    }
    trainingrun.train(folder, spec)
    return {"seconds": float(out.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    main()
