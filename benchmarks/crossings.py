"""Each row crosses the network once: bytes that nodes are sent in an epoch, by those of the data.

Three nodes on this machine, with object stores of their own: one reads, two have two workers each.
139 MB in rows of 64 numbers, so that a block has rows of many steps. 1 is each row once, 2 each row
to both nodes with workers, as a global shuffle of objects needs it once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

BATCH = 128
# The node of each rank.
SIDES = ("one", "one", "two", "two")
SHAPE = rows.Shape("narrow", 512_000, 64)


@dataclass(frozen=True)
class Way:
    """A shuffle, where rows are kept, and how often each row should cross in the first epochs."""

    shuffle: Mapping[str, JsonValue]
    cache: str
    crossings: tuple[float, float]


WAYS = {
    "none": Way({"mode": "none"}, "none", (1, 1)),
    "blocks and a buffer": Way({"mode": "blocks", "bufferSize": 20_000}, "none", (1, 1)),
    "global, streamed": Way({"mode": "global"}, "none", (1, 1)),
    "blocks, as objects": Way({"mode": "blocks"}, "objects", (1, 1)),
    "global, as objects": Way({"mode": "global"}, "objects", (2, 0)),
    "local, in workers": Way({"mode": "local", "bufferSize": 20_000}, "workers", (1, 0)),
}


def main() -> None:
    """Measure."""
    given = options(__doc__)
    shape = rows.Shape("quick", 128_000, 64) if given.quick else SHAPE
    data = rows.make(shape, given.cache)
    row_bytes = 4 * shape.features + 16  # Arrow has an offset of 8 bytes for each list
    samples = in_turn({"ours": partial(ours, data, row_bytes)}, given, is_timed=False)
    figures: list[Figure] = []
    for name, way in WAYS.items():
        for epoch, most in enumerate(way.crossings, start=1):
            sent = samples.of("ours", f"{name}, epoch {epoch}")
            factors = [each / (shape.rows * row_bytes) for each in sent]
            target = Target("worst", "<=", most + 0.05)
            figures.append(Figure(f"{name}, epoch {epoch}", "times", factors, None, target))
    publish("crossings", figures, samples, given)


def ours(data: Path, row_bytes: int, folder: Path) -> Sample:
    """Read two epochs in each way; return the bytes."""
    options = {"data": data, "row_bytes": row_bytes, "batch_size": BATCH}
    text = output_of("benchmarks.ours.crossed", folder, options, timeout_seconds=600)
    found: Sample = json.loads(text)
    return found


if __name__ == "__main__":
    main()
