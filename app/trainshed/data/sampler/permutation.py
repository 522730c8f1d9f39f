"""Row order as a pure function of (seed, epoch).

No cache, placement, timing or counter of Ray matters: an epoch follows from its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Indices = NDArray[np.int64]

# Version of the order of rows, which decides the remaining rows of an epoch. Order 1 depended on
# the number of workers and on row weights. In order 2 a row stayed in its slot of a step, and
# windows began at the same steps in each epoch.
ORDER = 3
SAME_SLOTS = 2
# A separate stream of random numbers for each use of the seed.
FILES, BLOCKS, GLOBAL, LOCAL = 1, 2, 3, 4


@dataclass(frozen=True)
class RowRange:
    """Rows [start, stop) of one fragment; is_last: whether it ends the fragment."""

    fragment: int
    start: int
    stop: int
    is_last: bool = False

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.stop - self.start


def fragment_order(files: Sequence[int], mode: str, seed: int, epoch: int) -> Indices:
    """Return the fragments in the order of this epoch, shape (fragments,).

    Args:
        files: the file each fragment belongs to; fragments of a file are neighbours.
        mode: the shuffle mode; `none`, `local` and `global` keep the order of the files.
        seed: the run's seed.
        epoch: 0-based.
    """
    identity = np.arange(len(files), dtype=np.int64)
    if mode == "files":
        _, first, number = np.unique(np.asarray(files), return_index=True, return_inverse=True)
        place = np.random.default_rng([seed, FILES, epoch]).permutation(len(first))
        # A stable sort by the new position of its file keeps a file's fragments in order.
        return np.argsort(place[number], kind="stable").astype(np.int64)
    if mode == "blocks":
        return np.random.default_rng([seed, BLOCKS, epoch]).permutation(identity)
    return identity


def first_rows(counts: Indices) -> Indices:
    """Return the position in the dataset of each fragment's first row, shape (fragments,)."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
