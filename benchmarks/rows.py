"""Generates the rows that all sides train on, once, in a cache outside of the repository.

A file has `x`, a fixed-size list of float32, and the label `y`, int64. Labels can be learned: each
class has a different mean.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLASSES = 10
FILES = 8
GROUPS_IN_FILE = 2


@dataclass(frozen=True)
class Shape:
    """Size of a dataset.

    Args:
        name: start of the folder's name.
        rows: rows in all files.
        features: numbers in a row.
    """

    name: str
    rows: int
    features: int


CIFAR = Shape("cifar", 20_000, 3072)  # 32 x 32 pixels of 3 colours
NARROW = Shape("narrow", 128_000, 64)
GIGABYTE = Shape("gigabyte", 262_144, 1024)


def make(shape: Shape, cache: Path, *, is_numbered: bool = False) -> Path:
    """Return the folder of the files, which are in the page cache; writes them if necessary.

    Args:
        shape: size of the dataset.
        cache: folder for all datasets.
        is_numbered: add a column `id`, the position of a row in the dataset.
    """
    suffix = "-numbered" if is_numbered else ""
    folder = cache / f"{shape.name}-{shape.rows}x{shape.features}{suffix}"
    return write_once(folder, lambda target: _write(shape, target, is_numbered=is_numbered))


def write_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a folder with its files in the page cache; calls `write` if it does not exist."""
    if not folder.exists():
        partial = folder.with_suffix(".writing")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        partial.rename(folder)
    for file in folder.rglob("*.*"):
        file.read_bytes()
    return folder


def _write(shape: Shape, folder: Path, *, is_numbered: bool) -> None:
    random = np.random.default_rng(0)
    # means has shape (classes, features)
    means = 0.05 * random.standard_normal((CLASSES, shape.features), dtype=np.float32)
    count = shape.rows // FILES
    for number in range(FILES):
        labels = random.integers(0, CLASSES, count)
        # x has shape (rows of the file, features)
        x = means[labels] + random.standard_normal((count, shape.features), dtype=np.float32)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), shape.features)
        columns = {"x": lists, "y": pa.array(labels)}
        if is_numbered:
            columns["id"] = pa.array(np.arange(number * count, (number + 1) * count))
        file = folder / f"part-{number}.parquet"
        pa.parquet.write_table(pa.table(columns), file, row_group_size=count // GROUPS_IN_FILE)
