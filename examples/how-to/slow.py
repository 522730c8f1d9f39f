"""A transform that is too slow, to be found by `trainshed explain --measure`."""

import time

import numpy as np
from numpy.typing import NDArray

Batch = dict[str, NDArray[np.generic]]


def slow(batch: Batch) -> Batch:
    """Return the batch unchanged, after 2 ms for each row."""
    time.sleep(0.002 * len(batch["label"]))
    return batch
