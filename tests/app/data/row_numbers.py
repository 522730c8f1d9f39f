"""The transform that finds the numbers again with which `numbered` wrote rows of any format.

Each row comes out as `id`, and `x` as wide as is asked for, so that blocks are too large to travel
inside Ray's answers: they lie in the object store of the node that made them. It goes to clusters
as a user's own code does, and imports nothing of ours.
"""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Batch = dict[str, NDArray[np.generic]]
SECONDS_BETWEEN_LOOKS = 0.05


def widened(
    batch: Batch, *, width: int = 1, gate: str = "", held: list[int] | None = None
) -> Batch:
    """Return the numbers of the rows, each as wide as is asked for.

    Args:
        batch: of any format.
        width: of `x`.
        gate: a file without which no batch passes that has one of the rows `held`.
        held: their numbers.
    """
    ids = numbers_of(batch)
    while gate and np.isin(ids, held or []).any() and not Path(gate).exists():
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return {"id": ids, "x": np.repeat(ids[:, None], width, axis=1).astype(np.float32)}


def numbers_of(batch: Batch) -> NDArray[np.int64]:
    """Return the numbers that rows were written with."""
    if "id" in batch:
        return batch["id"].astype(np.int64)
    if "data" in batch:
        return (batch["data"][:, 0].astype(np.float64) / 3).round().astype(np.int64)
    if "frame" in batch:
        firsts = [int(Path(str(path)).stem) for path in batch["path"]]
        return batch["number"].astype(np.int64) + np.asarray(firsts, dtype=np.int64)
    [(find, column)] = [
        (find, batch[name]) for name, find in _NUMBER_OF_VALUE.items() if name in batch
    ]
    return np.asarray([find(value) for value in column], dtype=np.int64)


def _number_of_picture(content: bytes) -> int:
    red, green, _ = np.asarray(Image.open(io.BytesIO(content)))[0, 0].tolist()
    return int(red + 256 * green)


# By the column that holds it.
_NUMBER_OF_VALUE: dict[str, Callable[[Any], int]] = {
    "text": lambda line: int(str(line).split()[1]),
    "image": lambda content: _number_of_picture(bytes(content)),
    "bytes": lambda content: int(bytes(content)),
    "audio": lambda samples: len(samples) - 1,
}
