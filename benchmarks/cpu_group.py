"""Data wait of a training worker whose rows a CPU group prepares: heavy work, steps of 100 ms.

Two Ray nodes on this machine with separate object stores: one reads and transforms on two CPUs, the
other has the worker, which sleeps in each step. The rows of a step took 46.9 ms of a core in
November 2026 (RESULTS.md).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.plain.case import Case

EPOCHS, STEP_SECONDS = 3, 0.1
MEGABYTES, QUICK_MEGABYTES = 20, 5
# Rounds of work on each row, about 46 us.
ROUNDS = 800


def main() -> None:
    """Measure the waits."""
    options = parse_options(__doc__)
    megabytes = QUICK_MEGABYTES if options.quick else MEGABYTES
    heavy = replace(stored.cases(["parquet"], [megabytes], options.cache)[1], rounds=ROUNDS)
    samples = run_sides({"ours": partial(ours, heavy)}, options)
    target = Target("value", "<=", 1)
    figures = [
        Figure("data wait, steady", "%", samples.of("ours", "steady"), None, target),
        Figure("data wait, epochs 2 and 3", "%", samples.of("ours", "later"), None, target),
        Figure("first batch of epoch 1", "s", samples.of("ours", "cold")),
        Figure("first batch of epochs 2 and 3", "s", samples.of("ours", "warm")),
    ]
    publish("cpu_group", figures, samples, options)


def ours(case: Case, folder: Path) -> Sample:
    """Take all batches, with a sleep after each."""
    arguments = {"case": asdict(case), "folder": folder, "epochs": EPOCHS, "pause": STEP_SECONDS}
    return waits_of(run_module("benchmarks.ours.grouped", folder, arguments, timeout_seconds=600))


def waits_of(epochs: list[dict[str, float]]) -> Sample:
    """Return the waits in percent of the time, and for first batches in seconds."""
    later = epochs[1:]
    waited = sum(epoch["waitedSeconds"] for epoch in epochs)
    first = sum(epoch["firstSeconds"] for epoch in later)
    waited_later = first + sum(epoch["waitedSeconds"] for epoch in later)
    return {
        "steady": 100 * waited / sum(epoch["steadySeconds"] for epoch in epochs),
        "later": 100 * waited_later / (first + sum(epoch["steadySeconds"] for epoch in later)),
        "cold": epochs[0]["firstSeconds"],
        "warm": first / len(later),
    }
