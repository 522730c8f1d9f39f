"""A case of the loader benchmarks: files of a format, and the work on their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Height and width of a decoded image.
SIZE = 224


@dataclass(frozen=True)
class Case:
    """Files and the work on them.

    Args:
        name: row label in the table.
        format: `parquet`, `csv` or `jpeg`.
        folder: folder of the files.
        batch_size: rows in a step; the rows of each table file are a multiple of it.
        rounds: rounds of work on each row; 0 for cheap work.
    """

    name: str
    format: str
    folder: str
    batch_size: int
    rounds: int

    @property
    def files(self) -> list[str]:
        """Return the sorted paths of all files."""
        return sorted(str(file) for file in Path(self.folder).rglob("*.*"))


def work(values: NDArray[np.generic], rounds: int) -> NDArray[np.generic]:
    """Return values with the last axis reversed, after `rounds` rounds of sines and roots.

    The result for a row depends only on that row. Shape and type do not change.
    """
    reversed_ = np.ascontiguousarray(values[..., ::-1])
    if not rounds:
        return reversed_
    result = reversed_.astype(np.float32)
    for _ in range(rounds):
        result = np.sqrt(np.abs(np.sin(result)))
    return (255 * result).astype(values.dtype)
