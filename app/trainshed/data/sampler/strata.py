"""Stratified splits: holds out the exact share of the rows of each value. Pure.

Every row has a pseudorandom number by its position in the data; the rows with the smallest ones
are held out. A value is identified by a hash, its kind; all missing values are one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainshed.data.sampler.permutation import Indices

    Kinds = NDArray[np.uint64]

# Numbers of rows are in [0, 2 ** 63).
NUMBER_BITS = 63
# Rows to collect before sorting: 16 bytes each.
HELD_ROWS = 2**21
# The number of the last held-out row is near the share; with n rows the deviation is
# sqrt(share * (1 - share) / n). This many deviations are exceeded once in 10 ** 11 values, and with
# few rows this many rows.
DEVIATIONS, FEW = 7.0, 40.0
_NONE = -1


@dataclass(frozen=True)
class Strata:
    """For each value, the largest number of a held-out row: sent to each task.

    Args:
        kinds: of all values, ascending: 8 bytes each, a uint64.
        cuts: number of the last held-out row of each, -1 if there is none: an int64.
        rows: number of rows of all values.
        held: number of held-out rows.
    """

    kinds: bytes
    cuts: bytes
    rows: int
    held: int

    @property
    def values(self) -> int:
        """Return the number of values."""
        return len(self.kinds) // 8

    def cuts_of(self, kinds: Kinds) -> Indices | None:
        """Return up to which number rows are held out; None if a kind is unknown.

        Args:
            kinds: (rows,) of their values.
        """
        places = _places(np.frombuffer(self.kinds, np.uint64), kinds)
        return None if places is None else np.frombuffer(self.cuts, np.int64)[places]


class Stratifying:
    """Finds the last held-out row of each value, for rows in any order.

    It holds the numbers near the cut. The width depends on the number of rows of the value, and
    shrinks with each row, so that a dropped number is never needed later.

    Args:
        share: of the rows of each value, rounded half up.
        holds_all: whether all numbers are held.
    """

    def __init__(self, share: float, *, holds_all: bool = False) -> None:
        self._share = Fraction(str(share))  # decimal: no float equals 0.145
        self._holds_all = holds_all
        # By kind, shape (kinds,): number of rows, and of rows below the held ones.
        self.kinds: Kinds = np.empty(0, np.uint64)
        self._rows = np.empty(0, np.int64)
        self._before = np.empty(0, np.int64)
        # Of the held rows, shape (held,): index of their kind, and their number.
        self._codes = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int64)
        self._new: list[tuple[Kinds, Indices]] = []
        self._num_new = 0

    def add(self, kinds: Kinds, numbers: Indices) -> None:
        """Add rows.

        Args:
            kinds: (rows,) of their values.
            numbers: (rows,) of the rows.
        """
        self._new.append((kinds, numbers))
        self._num_new += len(kinds)
        if self._num_new >= max(HELD_ROWS, len(self._numbers)):
            self._sort_in()

    def strata(self) -> Strata | None:
        """Return the result; None if a needed number was dropped, which requires `holds_all`."""
        self._sort_in()
        part, whole = self._share.numerator, self._share.denominator
        # wanted has shape (kinds,): number of held-out rows of each kind
        wanted = np.asarray(
            [(2 * part * rows + whole) // (2 * whole) for rows in self._rows.tolist()], np.int64
        )
        order = np.lexsort((self._numbers, self._codes))
        counts = np.bincount(self._codes, minlength=len(self.kinds))
        starts = np.cumsum(counts) - counts
        last = wanted - self._before - 1
        some = wanted > 0
        if not ((last >= 0) & (last < counts))[some].all():
            return None
        cuts = np.full(len(self.kinds), _NONE)
        cuts[some] = self._numbers[order[(starts + last)[some]]]
        rows, held = int(self._rows.sum()), int(wanted.sum())
        return Strata(self.kinds.tobytes(), cuts.tobytes(), rows, held)

    def _sort_in(self) -> None:
        """Count the new rows, and drop all numbers that are too far from the cut."""
        if not self._new:
            return
        codes = self._coded(np.concatenate([kinds for kinds, _ in self._new]))
        numbers = np.concatenate([numbers for _, numbers in self._new])
        self._new, self._num_new = [], 0
        self._rows += np.bincount(codes, minlength=len(self.kinds))
        codes = np.concatenate([self._codes, codes])
        numbers = np.concatenate([self._numbers, numbers])
        if not self._holds_all:
            share, rows = float(self._share), self._rows
            margins = DEVIATIONS * np.sqrt(share * (1 - share) / rows) + FEW / rows
            off, most = numbers * 2.0**-NUMBER_BITS - share, margins[codes]
            self._before += np.bincount(codes[off < -most], minlength=len(rows))
            near = np.abs(off) <= most
            codes, numbers = codes[near], numbers[near]
        self._codes, self._numbers = codes, numbers

    def _coded(self, kinds: Kinds) -> Indices:
        """Return the index of each row's kind, shape (rows,), adding new kinds."""
        places = _places(self.kinds, kinds)
        if places is not None:
            return places
        known, self.kinds = self.kinds, np.union1d(self.kinds, kinds)
        moved = np.searchsorted(self.kinds, known)
        rows, before = np.zeros((2, len(self.kinds)), np.int64)
        rows[moved], before[moved] = self._rows, self._before
        self._rows, self._before, self._codes = rows, before, moved[self._codes]
        return np.searchsorted(self.kinds, kinds)


def _places(known: Kinds, kinds: Kinds) -> Indices | None:
    """Return the index of each kind among the known ones; None if one is unknown."""
    places: Indices = np.searchsorted(known, kinds)
    if len(kinds) and (places.max() == len(known) or not np.array_equal(known[places], kinds)):
        return None
    return places
