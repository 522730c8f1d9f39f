"""How well each shuffle mixes, and what it costs: distances, labels of a batch, first batches.

Mixing: 200,000 rows in 5 files of 4 row groups, batches of 128, means of 10 epochs, computed from
the order alone; and the same with 50 row groups in each file. First batch: of an attempt with two
workers and one CPU for data, 20,000 rows of 3072 numbers; a cache reads all of them before.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import mixing, rows
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

ROWS, FILES, BATCH, CLASSES, EPOCHS = 200_000, 5, 128, 10, 10
# Row groups of a file: of 10,000 rows, and of 800.
GROUPS = (4, 50)
BUFFERS = (2_000, 10_000, 50_000)
# Exactly the default means a buffer with mode local alone; this one has as many steps.
BESIDE = {2_000: 2_000, 10_000: 10_001, 50_000: 50_000}


@dataclass(frozen=True)
class Way:
    """A shuffle, and how its rows are kept and read."""

    shuffle: Mapping[str, JsonValue] = field(default_factory=dict)
    cache: str = "none"


PLAIN = {mode: {"mode": mode} for mode in ("none", "files", "blocks", "global")}
FED = {
    **{mode: Way({"mode": mode}) for mode in ("none", "files", "blocks")},
    "local": Way({"mode": "local", "bufferSize": 10_000}),
    "files and a buffer": Way({"mode": "files", "bufferSize": 10_001}),
    "blocks and a buffer": Way({"mode": "blocks", "bufferSize": 10_001}),
    "global, streamed": Way({"mode": "global"}),
    "global, as objects": Way({"mode": "global"}, "objects"),
}


def main() -> None:
    """Measure."""
    given = options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if given.quick else rows.CIFAR
    data = rows.make(shape, given.cache)
    samples = in_turn({"first batch": partial(first_rows, data, shape.features)}, given)
    figures = [each for groups in GROUPS for each in mixed(groups)]
    publish("shuffles", [*figures, *waited(samples)], samples, given)


def mixed(groups: int) -> list[Figure]:
    """Return how well each shuffle mixes files of so many row groups."""
    where = f"{FILES * groups} blocks"
    figures = [
        figure
        for mode, shuffle in PLAIN.items()
        for figure in _figures(f"{where}, {mode}", *_mixing(groups, shuffle))
    ]
    for buffer in BUFFERS:
        plain = _plain_window(buffer)
        ways: dict[str, dict[str, JsonValue]] = {
            "local": {"mode": "local", "bufferSize": buffer},
            "files": {"mode": "files", "bufferSize": BESIDE[buffer]},
            "blocks": {"mode": "blocks", "bufferSize": BESIDE[buffer]},
        }
        for mode, shuffle in ways.items():
            found = _mixing(groups, shuffle)
            figures += _figures(f"{where}, {mode} + {buffer:,}", *found, plain)
    return figures


def waited(samples: Samples) -> list[Figure]:
    """Return the waits for the first batch."""
    least = ("none", samples.of("first batch", "none"))
    return [
        Figure(
            f"first batch, {name}", "s", samples.of("first batch", name), least if number else None
        )
        for number, name in enumerate(FED)
    ]


def first_rows(data: Path, features: int, folder: Path) -> Sample:
    """Return the seconds to the first batch of each way."""
    options = {"data": data, "row_bytes": 4 * features + 8, "batch_size": BATCH}
    seconds: Sample = json.loads(output_of("benchmarks.ours.first_rows", folder, options))
    return seconds


def _mixing(groups: int, shuffle: Mapping[str, JsonValue]) -> tuple[float, float]:
    """Return distance and spread of a shuffle, means over epochs."""
    plan = mixing.plan_of(FILES, groups, ROWS, shuffle)
    orders = [mixing.rows_in_order(plan, BATCH, epoch) for epoch in range(EPOCHS)]
    return (
        statistics.mean(mixing.distance(order) for order in orders),
        statistics.mean(mixing.spread(order, ROWS, CLASSES, BATCH) for order in orders),
    )


def _plain_window(buffer: int) -> tuple[float, float]:
    """Return distance and spread of a plain shuffle in windows of as many rows."""
    order = mixing.windows_in_order(ROWS, buffer)
    full = order[: len(order) // BATCH * BATCH]
    return mixing.distance(order), mixing.spread(full, ROWS, CLASSES, BATCH)


def _figures(
    name: str, distance: float, spread: float, plain: tuple[float, float] | None = None
) -> list[Figure]:
    """Return the two lines of a shuffle; a buffer should mix like a plain window of its size."""
    if plain is None:
        return [
            Figure(f"{name}: distance", "rows", [distance]),
            Figure("  spread of classes", "times", [spread]),
        ]
    window = "plain window"
    far, even = Target("ratio", ">=", 0.98), Target("ratio", "<=", 1.02)
    return [
        Figure(f"{name}: distance", "rows", [distance], (window, [plain[0]]), far),
        Figure("  spread of classes", "times", [spread], (window, [plain[1]]), even),
    ]


if __name__ == "__main__":
    main()
