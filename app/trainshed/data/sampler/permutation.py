"""The order of an epoch's rows, for any number of ranks: a pure function of (seed, epoch).

No cache, placement, timing or counter of Ray matters: an epoch follows from its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class EpochPermutation:
    """The order of an epoch.

    Args:
        order: (fragments,) numbers of the fragments, in order.
        counts: (fragments,) rows of each fragment by its number.
        mixed: (rows,) the row at each position of a global shuffle; else None.
        first_ids: (fragments,) the id of each fragment's first row, if that is not its position in
            the dataset; else None.
    """

    order: Indices
    counts: Indices
    mixed: Indices | None = None
    first_ids: Indices | None = None

    @property
    def rows(self) -> int:
        """Return the rows of the dataset."""
        return int(self.counts.sum())

    def positions(self, places: Indices) -> Indices:
        """Return the rows at positions in the order, by their position in the dataset."""
        if self.mixed is not None:
            return self.mixed[places]
        numbers = np.searchsorted(self._ends, places, side="right")
        return places + self._moved[numbers]

    def ids(self, places: Indices) -> Indices:
        """Return the ids of the rows at positions in the order, for augmentation."""
        positions = self.positions(places)
        if self.first_ids is None:
            return positions
        numbers = np.searchsorted(self._firsts, positions, side="right") - 1
        return positions + (self.first_ids - self._firsts)[numbers]

    def pieces(self, start: int, stop: int) -> list[RowRange]:
        """Return the row ranges at positions [start, stop) of an order of whole fragments."""
        assert self.mixed is None
        found = []
        number = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end, fragment = int(self._ends[number]), int(self.order[number])
            begin = end - int(self.counts[fragment])
            if end > start:
                to = min(stop, end)
                found.append(RowRange(fragment, start - begin, to - begin, is_last=to == end))
                start = to
            number += 1
        return found

    @cached_property
    def _ends(self) -> Indices:
        """Return the end of each fragment in the order."""
        return np.cumsum(self.counts[self.order])

    @cached_property
    def _moved(self) -> Indices:
        """Return the distance of each fragment from its position in the order to the dataset's."""
        begins = self._ends - self.counts[self.order]
        return self._firsts[self.order] - begins

    @cached_property
    def _firsts(self) -> Indices:
        """Return the position of each fragment's first row in the dataset."""
        return first_rows(self.counts)
