"""Writes the files of the loader benchmarks, once: Parquet, CSV and JPEG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks import rows
from benchmarks.plain.case import Case
from tests.builders_data import encode_jpeg, make_photo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MEGABYTE = 2**20
ROWS_IN_BATCH = 1024
BATCH_SIZES = {"parquet": ROWS_IN_BATCH, "csv": ROWS_IN_BATCH, "jpeg": 64}
FEATURES, CSV_COLUMNS = 64, 16
CSV_ROW_BYTES = 126
# Images are stored larger than they are decoded; number of different images.
STORED_SIZE, PICTURES = 256, 64
# Rounds of heavy work, about 5 us of a core for a table row and 2 ms for an image.
ROUNDS = {"parquet": 60, "csv": 200, "jpeg": 2}
FORMATS = tuple(ROUNDS)


def cases(forms: Iterable[str], sizes: Iterable[int], cache: Path) -> list[Case]:
    """Return a cheap and a heavy case of each size and format; the files are in the page cache.

    Args:
        forms: of FORMATS.
        sizes: approximate megabytes of the files; for Parquet, of the rows in memory.
        cache: folder for all files.
    """
    writers = {"parquet": _parquet, "csv": _csv, "jpeg": _jpeg}
    return [
        Case(f"{form}, {megabytes} MB, {name}", form, folder, BATCH_SIZES[form], rounds)
        for megabytes in sizes
        for form in forms
        for folder in [str(writers[form](megabytes, cache))]
        for name, rounds in (("cheap", 0), ("heavy", ROUNDS[form]))
    ]


def _parquet(megabytes: int, cache: Path) -> Path:
    count = _batches_in_file(megabytes, 4 * FEATURES + 8) * ROWS_IN_BATCH * rows.FILES
    return rows.make(rows.Shape("loaders", count, FEATURES), cache)


def _csv(megabytes: int, cache: Path) -> Path:
    count = _batches_in_file(megabytes, CSV_ROW_BYTES) * ROWS_IN_BATCH
    return rows.write_once(cache / f"csv-{megabytes}", lambda folder: _write_csv(folder, count))


def _jpeg(megabytes: int, cache: Path) -> Path:
    def write(folder: Path) -> None:
        photos = [
            encode_jpeg(make_photo(STORED_SIZE, STORED_SIZE, seed=number))
            for number in range(PICTURES)
        ]
        rounds = max(1, round(megabytes * MEGABYTE / sum(map(len, photos))))
        for number in range(rounds * PICTURES):
            target = folder / str(number % rows.CLASSES)
            target.mkdir(exist_ok=True)
            (target / f"{number:06}.jpg").write_bytes(photos[number % PICTURES])

    return rows.write_once(cache / f"jpeg-{megabytes}", write)


def _batches_in_file(megabytes: int, row_bytes: int) -> int:
    return max(1, round(megabytes * MEGABYTE / row_bytes / rows.FILES / ROWS_IN_BATCH))


def _write_csv(folder: Path, count: int) -> None:
    random = np.random.default_rng(0)
    for file in range(rows.FILES):
        # x has shape (rows of the file, columns)
        x = random.standard_normal((count, CSV_COLUMNS)).round(4)
        columns = {f"c{number:02}": x[:, number] for number in range(CSV_COLUMNS)}
        table = pa.table({**columns, "y": random.integers(0, rows.CLASSES, count)})
        pyarrow.csv.write_csv(table, folder / f"part-{file}.csv")
