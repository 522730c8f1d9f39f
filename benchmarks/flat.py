"""Memory does not grow with a dataset: one and four times the size of the object store.

For each format: the peak memory of a worker, the coordinator and a data task in a pass over four
object stores of rows, against a pass over one. Memory is private memory, without the object store.
The rows are generated. Two workers take batches without training on them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    parse_options,
    parser_for,
    publish,
    run_sides,
)
from benchmarks.processes import run_module

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = (
    *("parquet", "csv", "json", "text", "images", "numpy", "tfrecords", "webdataset"),
    *("binary", "audio", "video", "delta", "lance", "iceberg"),
)
STORE_BYTES = 90 * 2**20
# Sizes of the datasets, in object stores.
SMALL, LARGE = 1, 4
MEGABYTE = 2**20
# Allocators of Python, Arrow and torch keep a varying amount of freed memory.
SLACK_MEGABYTES = 64
ROLES = {"worker": "worker", "coordinator": "coordinator", "task": "data task"}


def main() -> None:
    """Measure the formats."""
    parser = parser_for(__doc__)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    options = parse_options(parser)
    sides = {form: partial(ours, form, options.quick) for form in options.formats}
    samples = run_sides(sides, options, is_timed=False)
    figures = [figure for form in sides for figure in compare(form, samples)]
    publish("flat", figures, samples, options)


def compare(form: str, samples: Samples) -> list[Figure]:
    """Return the figures of a format."""

    def megabytes(name: str) -> list[float]:
        return [size / MEGABYTE for size in samples.of(form, name)]

    figures = []
    for role, label in ROLES.items():
        limit = [peak + SLACK_MEGABYTES for peak in megabytes(f"{role}, small")]
        bound = (f"peak over one store, and {SLACK_MEGABYTES} MB", limit)
        peaks, target = megabytes(f"{role}, large"), Target("ratio", "<=", 1)
        figures.append(Figure(f"{form}: peak of a {label}", "MB", peaks, bound, target))
    spilled = megabytes("spilled, large")
    figures.append(Figure(f"{form}: spilled", "MB", spilled, None, Target("worst", "<=", 0)))
    return figures


def ours(form: str, quick: bool, folder: Path) -> Sample:
    """Take a pass over a small and a large dataset; return peaks and spilled bytes."""
    stores = (SMALL, SMALL + 1 if quick else LARGE)
    arguments = {"folder": folder / "rows", "form": form, "stores": stores}
    sample: Sample = run_module("benchmarks.ours.flat", folder, arguments, timeout_seconds=1200)
    return sample
