"""The order of an epoch's rows before they are divided into steps, for any number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.permutation import RowRange, first_rows

if TYPE_CHECKING:
    from trainshed.data.sampler.permutation import Indices


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
