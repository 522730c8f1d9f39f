"""Memory does not grow with a dataset: one and four times the size of the object store.

For each format: the peak memory of a worker, the coordinator and a data task in a pass over four
object stores of rows, against a pass over one. Memory is private memory, without the object store.
The rows are generated. Two workers take batches without training on them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    in_turn,
    options_in,
    parser_of,
    publish,
)
from benchmarks.processes import output_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS = (
    *("parquet", "csv", "json", "text", "images", "numpy", "tfrecords", "webdataset"),
    *("binary", "audio", "video", "delta", "lance", "iceberg"),
)
STORE_BYTES = 90 * 2**20
# Rows of the datasets in object stores.
SMALL, LARGE = 1, 4
MEGABYTE = 2**20
# What Python, Arrow and torch keep for themselves of what they have had comes and goes.
SLACK_BYTES = 64 * MEGABYTE
WHO = {"worker": "of a worker", "coordinator": "of the coordinator", "task": "of who reads"}


def main() -> None:
    """Measure."""
    parser = parser_of(__doc__)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    asked = parser.parse_args()
    given = options_in(asked)
    sides = {form: partial(ours, form, given.quick) for form in asked.formats}
    samples = in_turn(sides, given, is_timed=False)
    figures = [figure for form in sides for figure in lines(form, samples)]
    publish("flat", figures, samples, given)


def lines(form: str, samples: Samples) -> list[Figure]:
    """Return the lines of a format."""

    def of(name: str, size: str) -> list[float]:
        return _megabytes(samples.of(form, f"{name}, {size}"))

    figures = []
    for name, said in WHO.items():
        few, many = of(name, "small"), of(name, "large")
        most = [peak + SLACK_BYTES / MEGABYTE for peak in few]
        bound = ("peak over one store, and 64 MB", most)
        target = Target("ratio", "<=", 1)
        figures.append(Figure(f"{form}: peak {said}", "MB", many, bound, target))
    spilled = of("spilled", "large")
    figures.append(Figure(f"{form}: spilled", "MB", spilled, None, Target("worst", "<=", 0)))
    return figures


def ours(form: str, quick: bool, folder: Path) -> Sample:
    """Read a pass over a small and a large dataset; return the peaks, and what was spilled."""
    stores = (SMALL, SMALL + 1 if quick else LARGE)
    options = {"folder": folder / "rows", "form": form, "stores": stores}
    text = output_of("benchmarks.ours.flat", folder, options, timeout_seconds=1200)
    peaks: Sample = json.loads(text)
    return peaks


def _megabytes(sizes: Sequence[float]) -> list[float]:
    return [size / MEGABYTE for size in sizes]


if __name__ == "__main__":
    main()
