"""Seconds to resume in the middle of an epoch with as many workers or half of them, warm and cold.

From the start of the workers, whose imports have finished, until each has its first batch. Four
workers before, 1 GB of Parquet. Warm: the DataServer and the processes of data tasks are running.
Cold: a new job with a running coordinator. Also the rows that are read before those of that step,
divided by a window and a row group: the step is the last of its window, which reads the most.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

BATCH, BEFORE = 256, 4
# Who goes on: as many, and half of them.
NOW = (4, 2)
MODES: dict[str, Mapping[str, JsonValue]] = {
    "none": {"mode": "none"},
    "blocks": {"mode": "blocks"},
    "local": {"mode": "local", "bufferSize": 10_000},
    "blocks and a buffer": {"mode": "blocks", "bufferSize": 10_001},
}
SECONDS = {"warm": 2.0, "cold": 3.5}


def main() -> None:
    """Measure."""
    given = options(__doc__)
    shape = rows.Shape("quick", 32_768, 256) if given.quick else rows.GIGABYTE
    data = rows.make(shape, given.cache, is_numbered=True)
    samples = in_turn({"ours": partial(ours, data, shape.features)}, given)
    figures = [
        figure
        for state, most in SECONDS.items()
        for mode in MODES
        for figure in compare(mode, state, most, samples)
    ]
    publish("resize", figures, samples, given)


def compare(mode: str, state: str, most: float, samples: Samples) -> list[Figure]:
    """Return the lines of a mode."""
    same, half = (f"{mode}, {count}, {state}" for count in NOW)
    as_many = samples.of("ours", f"{same}: seconds")
    target = Target("value", "<=", most)
    return [
        Figure(f"{state}, {mode}: 4 to 4 workers", "s", as_many, None, target),
        Figure(
            f"{state}, {mode}: 4 to 2 workers",
            "s",
            samples.of("ours", f"{half}: seconds"),
            ("4 to 4", as_many),
            target,
        ),
        Figure("  read beside it", "rows", samples.of("ours", f"{half}: again")),
        Figure(
            "  of a window and a row group",
            "",
            samples.of("ours", f"{half}: part"),
            None,
            Target("worst", "<=", 1),
        ),
    ]


def ours(data: Path, features: int, folder: Path) -> Sample:
    """Go on in all modes."""
    notes = folder / "notes"
    notes.mkdir()
    sizes = {"row_bytes": 4 * features + 16, "batch_size": BATCH}
    options = {"data": data, "notes": notes, **sizes}
    text = output_of("benchmarks.ours.resized", folder, options, timeout_seconds=600)
    found: Sample = json.loads(text)
    return found


if __name__ == "__main__":
    main()
