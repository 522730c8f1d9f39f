"""Functions whose rows Ray Data makes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import ray.data
from ray.data import Dataset

from trainshed.data.sources.column_arrays import Columns


def numbers(rows: int, blocks: int, folder: str) -> Dataset:
    """Return numbered rows; each block leaves its first number in a folder when it is made."""

    def noted(batch: Columns) -> Columns:
        print("a line of the function's")
        (Path(folder) / str(batch["id"][0])).touch()
        return {"id": batch["id"], "x": batch["id"][:, None] / np.asarray([1.0, 8.0])}

    made = ray.data.range(rows, override_num_blocks=blocks)
    return made.map_batches(noted, batch_size=None)


def values() -> Dataset:
    """Return rows of many types, some of which are missing."""
    first = pa.table(
        {
            "count": pa.array([1, None, 2**40]),
            "name": pa.array([None, None, None], pa.null()),
            "tokens": pa.array([[1, 2], [3, 4], [5, 6]]),
            "deep": pa.array([[{"a": 1}], [], None]),
        }
    )
    second = pa.table(
        {
            "count": pa.array([3]),
            "name": pa.array(["a"]),
            "tokens": pa.array([[7]]),
            "deep": pa.array([[{"a": 2}]]),
        }
    )
    return ray.data.from_arrow([first, second])


def as_texts(batch: Columns) -> Columns:
    """Return the ids as texts."""
    return {"text": np.asarray([str(number) for number in batch["id"].tolist()], dtype=object)}


def failing() -> Dataset:
    """Return rows that cannot be made."""
    return ray.data.range(4).map_batches(refuse)


def refuse(batch: Columns) -> Columns:
    """Raise."""
    raise ValueError("no such rows")


def no_dataset() -> list[int]:
    """Return something that is no dataset."""
    return [1]
