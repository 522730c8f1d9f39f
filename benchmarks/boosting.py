"""Seconds of 100 rounds of XGBoost: ours on two workers, plain XGBoost with as many threads.

A million rows of 50 features, without the start and the reading of rows. Ours has two workers of
one thread. Plain XGBoost has two processes of one thread, or one process of two, which exchanges no
histograms.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import output_of

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
# A round that draws rows makes what draws anew (docs/decisions/0024).
KINDS: dict[str, dict[str, JsonValue]] = {"all rows": {}, "half of the rows": {"subsample": 0.5}}


def main() -> None:
    """Measure both kinds of rounds."""
    given = options(__doc__)
    data = rows.make(QUICK if given.quick else TABLE, given.cache)
    runs: dict[str, Callable[..., Sample]] = {
        "one": partial(plain, 1, WORKERS),
        "two": partial(plain, WORKERS, 1),
        "ours": ours,
    }
    sides = {
        f"{side}, {kind}": partial(run, data, {**PARAMS, **more})
        for kind, more in KINDS.items()
        for side, run in runs.items()
    }
    samples = in_turn(sides, given)
    figures = []
    for kind in KINDS:
        one, two, both = (samples.of(f"{side}, {kind}", "seconds") for side in runs)
        name = f"ours, {WORKERS} workers, {kind}"
        target = Target("ratio", "<=", 1.15)
        figures += [
            Figure(f"plain XGBoost, one process, {WORKERS} threads, {kind}", "s", one),
            Figure(f"plain XGBoost, {WORKERS} processes, {kind}", "s", two),
            Figure(name, "s", both, (f"plain XGBoost, {WORKERS} processes", two), target),
            Figure(name, "s", both, ("plain XGBoost, one process", one)),
        ]
    publish("boosting", figures, samples, given)


def plain(
    ranks: int, threads: int, data: Path, params: dict[str, JsonValue], folder: Path
) -> Sample:
    """Run a plain program and read its seconds.

    Args:
        ranks: processes.
        threads: of each process. OMP_NUM_THREADS is a bound for XGBoost, whatever nthread says.
        data: its rows.
        params: of XGBoost.
        folder: of what it writes.
    """
    out = folder / "seconds"
    options = {"data": data, "out": out, "params": params, "rounds": ROUNDS}
    shape = {"ranks": ranks, "threads": threads}
    environment = {"OMP_NUM_THREADS": str(threads)}
    output_of("benchmarks.plain.xgboost_rounds", folder, options | shape, environment=environment)
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
