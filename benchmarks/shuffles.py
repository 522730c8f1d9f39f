"""How well each shuffle mixes, and what it costs: distances, labels of a batch, first batches.

Mixing: 200,000 rows in 5 files of 4 row groups, batches of 128, means of 10 epochs, computed from
the order alone; and the same with 50 row groups in each file. First batch: of an attempt with two
workers and one CPU for data, 20,000 rows of 3072 numbers; a cache reads all of them before.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import mixing, rows
from benchmarks.measure import Figure, Sample, Samples, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

ROWS, FILES, BATCH, CLASSES, EPOCHS = 200_000, 5, 128, 10, 10
# Row groups of a file, with 10,000 and 800 rows.
GROUPS = (4, 50)
MODES = ("none", "files", "blocks", "global")
# Buffer sizes of mode `local`, and of other modes, where 10,000 would mean no buffer.
BUFFERS = {2_000: 2_000, 10_000: 10_001, 50_000: 50_000}
# Fields of the dataset for each first batch; without `cache`, none.
STREAMS: dict[str, dict[str, JsonValue]] = {
    **{mode: {"shuffle": {"mode": mode}} for mode in ("none", "files", "blocks")},
    "local": {"shuffle": {"mode": "local", "bufferSize": 10_000}},
    "files and a buffer": {"shuffle": {"mode": "files", "bufferSize": 10_001}},
    "blocks and a buffer": {"shuffle": {"mode": "blocks", "bufferSize": 10_001}},
    "global, streamed": {"shuffle": {"mode": "global"}},
    "global, as objects": {"shuffle": {"mode": "global"}, "cache": "objects"},
}


def main() -> None:
    """Measure all shuffles."""
    options = parse_options(__doc__)
    shape = rows.Shape("quick", 4_000, 3072) if options.quick else rows.CIFAR
    data = rows.make(shape, options.cache)
    samples = run_sides({"first batch": partial(first_rows, data, shape.features)}, options)
    figures = [figure for groups in GROUPS for figure in compare_mixing(groups)]
    publish("shuffles", [*figures, *compare_waits(samples)], samples, options)


def compare_mixing(groups: int) -> list[Figure]:
    """Return how well each shuffle mixes files with this number of row groups."""
    title = f"{FILES * groups} blocks"
    figures = []
    for mode in MODES:
        figures += _figures(f"{title}, {mode}", _measure_mixing(groups, {"mode": mode}))
    for local, other in BUFFERS.items():
        window = _measure_window(local)
        for mode, size in (("local", local), ("files", other), ("blocks", other)):
            mixed = _measure_mixing(groups, {"mode": mode, "bufferSize": size})
            figures += _figures(f"{title}, {mode} + {local:,}", mixed, window)
    return figures


def compare_waits(samples: Samples) -> list[Figure]:
    """Return the waits for the first batch."""
    seconds = {name: samples.of("first batch", name) for name in STREAMS}
    none = ("none", seconds["none"])
    return [
        Figure(f"first batch, {name}", "s", values, None if name == "none" else none)
        for name, values in seconds.items()
    ]


def first_rows(data: Path, features: int, folder: Path) -> Sample:
    """Return the seconds to the first batch of each stream."""
    arguments = {"data": data, "row_bytes": 4 * features + 8, "batch_size": BATCH}
    seconds: Sample = run_module("benchmarks.ours.first_rows", folder, arguments)
    return seconds


def _measure_mixing(groups: int, shuffle: Mapping[str, JsonValue]) -> tuple[float, float]:
    """Return distance and spread of a shuffle, means of all epochs."""
    plan = mixing.make_plan(FILES, groups, ROWS, shuffle)
    orders = [mixing.rows_in_order(plan, BATCH, epoch) for epoch in range(EPOCHS)]
    return (
        statistics.mean(mixing.distance(order) for order in orders),
        statistics.mean(mixing.spread(order, ROWS, CLASSES, BATCH) for order in orders),
    )


def _measure_window(buffer: int) -> tuple[float, float]:
    """Return distance and spread of a full shuffle within windows of `buffer` rows."""
    order = mixing.shuffle_windows(ROWS, buffer)
    full = order[: len(order) // BATCH * BATCH]
    return mixing.distance(order), mixing.spread(full, ROWS, CLASSES, BATCH)


def _figures(
    name: str, mixed: tuple[float, float], window: tuple[float, float] | None = None
) -> list[Figure]:
    """Return distance and spread of a shuffle, compared with those of a plain window."""
    distance, spread = mixed
    title, label = f"{name}: distance", "  spread of classes"
    if window is None:
        return [Figure(title, "rows", [distance]), Figure(label, "times", [spread])]
    plain_distance, plain_spread = (("plain window", [value]) for value in window)
    far, even = Target("ratio", ">=", 0.98), Target("ratio", "<=", 1.02)
    return [
        Figure(title, "rows", [distance], plain_distance, far),
        Figure(label, "times", [spread], plain_spread, even),
    ]
