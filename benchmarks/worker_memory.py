"""What a buffer takes of a worker's memory: at most twice its share, bufferSize / workers rows.

The most that a worker's process grows by in a pass, the largest of all workers; its own memory, not
the object store's. It should be no more than without a buffer, two shares in whole steps and three
blocks: one that a window ends in, one in which the next is full, and one that waits for it. Rows of
1024 numbers, 1 GB; a step takes 10 ms, so that the stream is ahead.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import rows
from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RANKS = (1, 4)
BUFFERS, FEWER = (20_000, 60_000), (4_000, 12_000)
BATCH, PAUSE_SECONDS = 512, 0.01
MEGABYTE = 2**20
# Under this name a sample has the most bytes of a block.
BLOCK = "block"


def main() -> None:
    """Measure."""
    given = options(__doc__)
    shape = rows.Shape("quick", 32_768, 1024) if given.quick else rows.GIGABYTE
    buffers = FEWER if given.quick else BUFFERS
    data = rows.make(shape, given.cache, is_numbered=True)
    row_bytes = 4 * shape.features + 16
    samples = in_turn({"ours": partial(ours, data, row_bytes, buffers)}, given, is_timed=False)
    figures = [
        figure for count in RANKS for figure in multiples(count, buffers, row_bytes, samples)
    ]
    publish("worker_memory", figures, samples, given)


def multiples(count: int, buffers: Sequence[int], row_bytes: int, samples: Samples) -> list[Figure]:
    """Return the lines of a number of workers."""
    without, block = samples.of("ours", case(count, 0)), samples.of("ours", BLOCK)
    figures = [Figure(f"{count} workers, no buffer: growth", "MB", _megabytes(without))]
    for buffer in buffers:
        grown, share = samples.of("ours", case(count, buffer)), buffer / count * row_bytes
        window = -(-buffer // BATCH) * BATCH / count * row_bytes
        most = [less + 2 * window + 3 * each for less, each in zip(without, block, strict=True)]
        times = [(more - less) / share for more, less in zip(grown, without, strict=True)]
        figures += [
            Figure(
                f"{count} workers, buffer of {buffer:,}: growth",
                "MB",
                _megabytes(grown),
                ("what it may", _megabytes(most)),
                Target("ratio", "<=", 1),
            ),
            Figure("  more than without, in shares", "times", times),
        ]
    return figures


def case(count: int, buffer: int) -> str:
    """Return the name of a case."""
    return f"{count} workers, buffer {buffer}"


def ours(data: Path, row_bytes: int, buffers: Sequence[int], folder: Path) -> Sample:
    """Read a pass in all cases; return the bytes of each, and those of a block."""
    sizes = {"data": data, "row_bytes": row_bytes, "batch_size": BATCH}
    options = {**sizes, "pause": PAUSE_SECONDS, "buffers": buffers}
    text = output_of("benchmarks.ours.buffered", folder, options, timeout_seconds=600)
    grown: Sample = json.loads(text)
    return grown


def _megabytes(sizes: Sequence[float]) -> list[float]:
    return [size / MEGABYTE for size in sizes]


if __name__ == "__main__":
    main()
