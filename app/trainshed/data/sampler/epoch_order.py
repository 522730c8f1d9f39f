"""The rows of an epoch, one after the other, before steps take theirs: no number of ranks in it."""

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
        order: (fragments,) numbers of the fragments, one after the other.
        counts: (fragments,) rows of each fragment by its number.
        mixed: (rows,) the row at each place where a global shuffle says it; else None.
        first_ids: (fragments,) the id of each fragment's first row, where that is not its position
            in the dataset; else None.
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
        """Return the rows at places of the order, by their position in the dataset."""
        if self.mixed is not None:
            return self.mixed[places]
        numbers = np.searchsorted(self._ends, places, side="right")
        return places + self._moved[numbers]

    def ids(self, places: Indices) -> Indices:
        """Return the ids of the rows at places of the order, by which they are augmented."""
        positions = self.positions(places)
        if self.first_ids is None:
            return positions
        numbers = np.searchsorted(self._lasts, positions, side="right")
        return positions + (self.first_ids - self._firsts)[numbers]

    def pieces(self, start: int, stop: int) -> list[RowRange]:
        """Return the pieces with the rows at places [start, stop), where fragments stay whole."""
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
        """Return where each fragment of the order ends."""
        return np.cumsum(self.counts[self.order])

    @cached_property
    def _moved(self) -> Indices:
        """Return how far behind its place in the order each fragment is in the dataset."""
        begins = self._ends - self.counts[self.order]
        return self._firsts[self.order] - begins

    @cached_property
    def _firsts(self) -> Indices:
        """Return the position in the dataset of each fragment's first row."""
        return first_rows(self.counts)

    @cached_property
    def _lasts(self) -> Indices:
        """Return where each fragment ends in the dataset."""
        return np.cumsum(self.counts)
