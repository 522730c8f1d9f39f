"""Functions that make ragged rows, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainshed.data.sampler.randomness import RowRandom
from trainshed.data.sources.column_arrays import Array, Columns, as_objects

MISSING = -1


def tokens_of(number: int) -> list[int]:
    """Return what a row with this id has: of another length than its neighbours."""
    return [10 * number + place for place in range(number % 4)]


def ragged(batch: Columns) -> Columns:
    """Return for each id its tokens, a word, and a box for each token."""
    ids = batch["id"].tolist()
    tokens = [np.asarray(tokens_of(number), dtype=np.int64) for number in ids]
    boxes = [each[:, None] + np.arange(4.0) for each in tokens]
    words = np.array([f"word {number}" for number in ids])
    columns: Columns = {"id": batch["id"], "word": words}
    return columns | {"tokens": as_objects(tokens), "boxes": as_objects(boxes)}


def even(batch: Columns) -> Columns:
    """Return the same tokens for all rows, in one array."""
    return {"id": batch["id"], "tokens": np.tile(np.arange(3), (len(batch["id"]), 1))}


def without_words(batch: Columns) -> Columns:
    """Return ids and tokens alone."""
    return {"id": batch["id"], "tokens": batch["tokens"]}


def listed(batch: Columns) -> dict[str, object]:
    """Return a tensor for each row's tokens."""
    return {"id": batch["id"], "tokens": [torch.as_tensor(row) for row in batch["tokens"]]}


class Padded(NamedTuple):
    """Tokens of shape (rows, longest), and what else there is of the rows."""

    tokens: Tensor
    ids: Tensor
    words: list[str]


def padded(batch: Columns, *, missing: int = MISSING) -> Padded:
    """Return tokens as one tensor, filled up to the longest of the batch."""
    rows = [torch.as_tensor(row) for row in batch["tokens"]]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=missing)
    return Padded(tokens, torch.as_tensor(batch["id"]), list(batch["word"]))


class Padder:
    """The same by a class that is made once."""

    def __init__(self, missing: int) -> None:
        self._missing = missing

    def __call__(self, batch: Columns) -> Padded:
        return padded(batch, missing=self._missing)


def by_column(batch: Columns) -> Columns:
    """Return the columns as they come."""
    return batch


def doubled_in_place(batch: Columns) -> dict[str, object]:
    """Return tokens doubled where they lie."""
    for row in batch["tokens"]:
        np.multiply(row, 2, out=row)
    return {"tokens": [torch.as_tensor(row) for row in batch["tokens"]]}


def drawn(batch: Columns, *, rng: RowRandom) -> dict[str, Array]:
    """Return a random number for each id."""
    return {"id": batch["id"], "draw": rng.integers(0, 1_000_000)}


def picky(batch: Columns, *, bad: Sequence[int]) -> dict[str, Array]:
    """Raise where a row has an id that is bad."""
    for number in batch["id"].tolist():
        if number in bad:
            raise ValueError(f"row {number} is bad")
    return {"id": batch["id"]}


def elsewhere(batch: Columns) -> Tensor:
    """Return a tensor that lies on no CPU."""
    return torch.empty(len(batch["id"]), device="meta")


@dataclass(frozen=True)
class Boxes:
    """What is seen in the pictures of a batch."""

    by_row: list[Tensor]
    about: tuple[str, ...]


def seen(batch: Columns) -> tuple[Tensor, Boxes]:
    """Return a tensor, and a list of them in a dataclass."""
    boxes = [torch.as_tensor(row) for row in batch["boxes"]]
    return torch.as_tensor(batch["id"]), Boxes(boxes, tuple(batch["word"]))
