"""Functions of your own, as the runs in manifests/samples/data name them.

They take and return NumPy arrays, unless a comment says otherwise, and do not import Trainshed.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from ray.data import Dataset

Batch = dict[str, NDArray[np.generic]]


# ------------------------------------------------------------- rows of any format to numbers


def counted(batch: Batch) -> Batch:
    """Return the letter counts of a message, and whether it is spam: `spam<tab>Win a car`."""
    labels, texts = zip(*(str(line).split("\t", 1) for line in batch["text"]), strict=True)
    letters = [[text.lower().count(letter) for letter in ascii_lowercase] for text in texts]
    return {
        "letters": np.asarray(letters, dtype=np.float32),
        "label": np.asarray([label == "spam" for label in labels], dtype=np.int64),
    }


def unpacked(row: dict[str, object]) -> dict[str, object]:
    """Return the 64 gray values of a file, and its label: `letters/3-0017.bin` is a 3."""
    content, path = row["bytes"], Path(str(row["path"]))
    assert isinstance(content, bytes)
    return {
        "pixels": np.frombuffer(content, dtype=np.uint8),
        "label": int(path.name.partition("-")[0]),
    }


def split_off(batch: Batch) -> Batch:
    """Split arrays into features and label, which is their last number."""
    data = batch["data"]
    return {"features": data[:, :-1], "label": data[:, -1].astype(np.int64)}


def padded(batch: Batch, *, column: str, length: int) -> Batch:
    """Return a column of arrays of any length, truncated or zero-padded to one length."""
    rows = [np.asarray(row)[:length] for row in batch[column]]
    filled = [np.pad(row, (0, length - len(row))) for row in rows]
    return {**batch, column: np.stack(filled)}


# --------------------------------------------------------------------- kinds of transforms


def is_long(batch: Batch, *, least: float = 500) -> NDArray[np.bool_]:
    """Return whether each flight is long enough; for kind filter."""
    return batch["distance"] >= least


def with_speed(row: dict[str, float]) -> dict[str, float]:
    """Return one flight with its speed; for kind rows."""
    return {**row, "speed": row["distance"] / row["hours"]}


def filled(flights: pd.DataFrame) -> pd.DataFrame:
    """Return flights with missing delays as on time; for batchFormat pandas."""
    return flights.fillna({"delay": 0.0})


class Places:
    """Encodes texts as their index in a list; other texts share one more index."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}

    def __call__(self, batch: Batch, *, column: str) -> Batch:
        """Return the batch with a column of texts encoded."""
        other = len(self._places)
        numbers = [self._places.get(str(text), other) for text in batch[column]]
        return {**batch, column: np.asarray(numbers, dtype=np.int64)}


def checked(batch: Batch) -> Batch:
    """Return orders unchanged; a price below 0 is an error."""
    if (batch["price"] < 0).any():
        raise ValueError(f"a price of {batch['price'].min()}")
    return batch


# ------------------------------------------------------------------------- rows of no file


def drawn(rows: int) -> Dataset:
    """Return random points and whether each is in a circle; for read.use."""
    import ray.data

    def points(batch: Batch) -> Batch:
        angles = batch["id"].astype(np.float64)
        xy = np.stack([np.sin(angles), np.cos(3 * angles)], axis=1)
        return {"xy": xy.astype(np.float32), "label": (np.hypot(*xy.T) < 1).astype(np.int64)}

    return ray.data.range(rows, override_num_blocks=4).map_batches(points)


def connect() -> sqlite3.Connection:
    """Open the database with the flights; for read_sql."""
    return sqlite3.connect(os.environ.get("FLIGHTS", "flights.db"))
