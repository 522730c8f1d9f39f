"""A case of the loader benchmarks: files of a format, and the work on their rows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Of a picture, however large it is stored.
SIZE = 224


@dataclass(frozen=True)
class Case:
    """Files and the work on them.

    Args:
        name: of the case.
        format: `parquet`, `csv` or `jpeg`.
        folder: with the files.
        batch_size: rows of a step, by which each file of a table can be divided.
        rounds: of the heavy work; 0 for the cheap one.
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


def list_cases(cases: Sequence[Case]) -> str:
    """Return cases as JSON."""
    return json.dumps([asdict(case) for case in cases])


def read_cases(listed: str) -> list[Case]:
    """Return the cases of a list in JSON."""
    return [Case(**each) for each in json.loads(listed)]


def work(values: NDArray[np.generic], rounds: int) -> NDArray[np.generic]:
    """Return the last axis the other way round, after so many rounds of sines and roots.

    A row's result hangs on that row alone. Shape and type stay.
    """
    turned = np.ascontiguousarray(values[..., ::-1])
    if not rounds:
        return turned
    made = turned.astype(np.float32)
    for _ in range(rounds):
        made = np.sqrt(np.abs(np.sin(made)))
    return (255 * made).astype(values.dtype)
