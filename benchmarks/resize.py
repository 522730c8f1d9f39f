"""Seconds to resume in the middle of an epoch with as many workers or half of them, warm and cold.

From the start of the workers, whose imports have finished, until each has its first batch. Four
workers before, 1 GB of Parquet. Warm: the DataServer and the processes of data tasks are running.
Cold: a new job with a running coordinator. Also the rows that are read before those of that step,
divided by a window and a row group: the step is the last of its window, which reads the most.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Samples, Target, parse_options, publish, run_sides
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

BATCH, RANKS_BEFORE = 256, 4
RANKS_AFTER = (4, 2)
MODES: dict[str, dict[str, JsonValue]] = {
    "none": {"mode": "none"},
    "blocks": {"mode": "blocks"},
    "local": {"mode": "local", "bufferSize": 10_000},
    "blocks and a buffer": {"mode": "blocks", "bufferSize": 10_001},
}
MAX_SECONDS = {"warm": 2.0, "cold": 3.5}


def main() -> None:
    """Measure all modes."""
    options = parse_options(__doc__)
    shape = rows.Shape("quick", 32_768, 256) if options.quick else rows.GIGABYTE
    data = rows.make(shape, options.cache, is_numbered=True)
    samples = run_sides({"ours": partial(ours, data, shape.features)}, options)
    figures = [
        figure
        for state in MAX_SECONDS
        for mode in MODES
        for figure in compare(mode, state, samples)
    ]
    publish("resize", figures, samples, options)


def compare(mode: str, state: str, samples: Samples) -> list[Figure]:
    """Return the figures of a mode, warm or cold."""
    target, all_rows = Target("value", "<=", MAX_SECONDS[state]), Target("worst", "<=", 1)
    same, half = (f"{mode}, {count}, {state}" for count in RANKS_AFTER)
    same_seconds, half_seconds, again, part = (
        samples.of("ours", key)
        for key in (f"{same}: seconds", f"{half}: seconds", f"{half}: again", f"{half}: part")
    )
    name = f"{state}, {mode}"
    return [
        Figure(f"{name}: 4 to 4 workers", "s", same_seconds, None, target),
        Figure(f"{name}: 4 to 2 workers", "s", half_seconds, ("4 to 4", same_seconds), target),
        Figure("  rows of earlier steps", "rows", again),
        Figure("  divided by a window and a row group", "", part, None, all_rows),
    ]


def ours(data: Path, features: int, folder: Path) -> Sample:
    """Resume in all modes."""
    notes = folder / "notes"
    notes.mkdir()
    sizes = {"row_bytes": 4 * features + 16, "batch_size": BATCH}
    arguments = {"data": data, "notes": notes, **sizes}
    sample: Sample = run_module("benchmarks.ours.resized", folder, arguments, timeout_seconds=600)
    return sample
