"""Batches of pictures, and what draws for them."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trainshed.data.sampler.randomness import RowRandom
from trainshed.transforms import Batch


def make_column(*values: object) -> Batch:
    """Return a batch with the values as its column `image`."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return {"image": column}


def make_rng(rows: NDArray[np.int64] | Sequence[int]) -> RowRandom:
    return RowRandom(seed=1, epoch=2, rows=np.asarray(rows))


def call(function: Callable[..., Batch], batch: Batch, options: dict[str, object]) -> Batch:
    """Call a function with options as a TrainingRun has them."""
    return function(batch, **options)


def images(function: Callable[..., Batch], batch: Batch, **options: object) -> NDArray[np.uint8]:
    """Return the pictures that a function makes, wide enough to subtract."""
    return function(batch, **options)["image"].astype(np.uint8)


def apart(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how far the values of two pictures of one shape lie apart."""
    assert one.shape == other.shape
    return np.abs(one.astype(np.int64) - other.astype(np.int64))
