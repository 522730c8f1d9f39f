"""Data wait of a training worker whose rows a CPU group prepares: heavy work, steps of 100 ms.

Two Ray nodes on this machine with separate object stores: one reads and transforms on two CPUs, the
other has the worker, which sleeps in each step. The rows of a step took 46.9 ms of
a core in November 2026 (RESULTS.md).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.plain.case import list_cases
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.plain.case import Case

EPOCHS, STEP_SECONDS = 3, 0.1
MEGABYTES, QUICK_MEGABYTES = 20, 5
# Of the work on a row: about 46 us.
ROUNDS = 800


def main() -> None:
    """Measure."""
    given = options(__doc__)
    megabytes = QUICK_MEGABYTES if given.quick else MEGABYTES
    heavy = [replace(stored.cases("parquet", megabytes, given.cache)[1], rounds=ROUNDS)]
    samples = in_turn({"ours": partial(ours, heavy[0])}, given)
    least = Target("value", "<=", 1)
    figures = [
        Figure("data wait, steady", "%", samples.of("ours", "steady"), None, least),
        Figure("data wait, epochs 2 and 3", "%", samples.of("ours", "later"), None, least),
        Figure("first batch of epoch 1", "s", samples.of("ours", "cold")),
        Figure("first batch of epochs 2 and 3", "s", samples.of("ours", "warm")),
    ]
    publish("cpu_group", figures, samples, given)


def ours(case: Case, folder: Path) -> Sample:
    """Take all batches with a sleep after each; return the shares of time that were waited."""
    options = {
        "listed": list_cases([case]),
        "folder": folder,
        "epochs": EPOCHS,
        "pause": STEP_SECONDS,
    }
    found = json.loads(output_of("benchmarks.ours.grouped", folder, options, timeout_seconds=600))
    return waits_of(found)


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


if __name__ == "__main__":
    main()
