"""Which rows of each value of a column are held out: of each the same share, to the row. Pure.

Every row has a number that its place in the data gives; those with the smallest ones are held out.
A value is told from others by a number, too, its kind: one missing value is as good as another.
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

# Numbers of rows lie in [0, 2 ** 63).
NUMBER_BITS = 63
# Rows that are taken in before they are sorted: 16 bytes each.
HELD_ROWS = 2**21
# The number of the last row that is held out lies about a share of the way, of n rows off by
# sqrt(share * (1 - share) / n): so many times that are missed once in 10 ** 11 values, and of
# few rows so many of them.
DEVIATIONS, FEW = 7.0, 40.0
_NONE = -1


@dataclass(frozen=True)
class Strata:
    """Up to which number the rows of each value are held out: what each task is told.

    Args:
        kinds: of all values, rising: 8 bytes each, a uint64.
        cuts: number of the last row of each that is held out, -1 where none is: an int64.
        rows: of all values.
        held: of them.
    """

    kinds: bytes
    cuts: bytes
    rows: int
    held: int

    @property
    def values(self) -> int:
        """Return how many values there are."""
        return len(self.kinds) // 8

    def cuts_of(self, kinds: Kinds) -> Indices | None:
        """Return up to which number rows are held out; None where a kind is none of these.

        Args:
            kinds: (rows,) of their values.
        """
        places = _places(np.frombuffer(self.kinds, np.uint64), kinds)
        return None if places is None else np.frombuffer(self.cuts, np.int64)[places]


class Stratifying:
    """Finds up to where the rows of each value are held out, while they come in any order.

    It holds the numbers about there: how far around, the rows of the value tell, and less with
    each more, so that a number that was left out is never wanted again.

    Args:
        share: of the rows of each value, rounded to whole ones; half a row is held out.
        holds_all: whether all numbers are held.
    """

    def __init__(self, share: float, *, holds_all: bool = False) -> None:
        self._share = Fraction(str(share))  # as it is written: of 0.145 no float is the half
        self._holds_all = holds_all
        # By kind, shape (kinds,): rows that came, and those of them before the ones held.
        self.kinds: Kinds = np.empty(0, np.uint64)
        self._rows = np.empty(0, np.int64)
        self._before = np.empty(0, np.int64)
        # Of the rows that are held, shape (held,): the place of their kind, and their number.
        self._codes = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int64)
        self._new: list[tuple[Kinds, Indices]] = []
        self._num_new = 0

    def add(self, kinds: Kinds, numbers: Indices) -> None:
        """Take in rows.

        Args:
            kinds: (rows,) of their values.
            numbers: (rows,) of the rows.
        """
        self._new.append((kinds, numbers))
        self._num_new += len(kinds)
        if self._num_new >= max(HELD_ROWS, len(self._numbers)):
            self._sort_in()

    def strata(self) -> Strata | None:
        """Return what was found; None where a number is not held, which takes all to be held."""
        self._sort_in()
        wanted = self._wanted()
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

    def _wanted(self) -> Indices:
        """Return how many rows of each kind are held out, shape (kinds,)."""
        part, whole = self._share.numerator, self._share.denominator
        found = [(2 * part * rows + whole) // (2 * whole) for rows in self._rows.tolist()]
        return np.asarray(found, np.int64)

    def _sort_in(self) -> None:
        """Count the rows that came, and leave out all numbers that are too far off."""
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
            reach = DEVIATIONS * np.sqrt(share * (1 - share) / rows) + FEW / rows
            off, most = numbers * 2.0**-NUMBER_BITS - share, reach[codes]
            self._before += np.bincount(codes[off < -most], minlength=len(rows))
            near = np.abs(off) <= most
            codes, numbers = codes[near], numbers[near]
        self._codes, self._numbers = codes, numbers

    def _coded(self, kinds: Kinds) -> Indices:
        """Return the place of each row's kind, shape (rows,); kinds that are new get theirs."""
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
    """Return where each of some kinds is among those that are known; None where one is not."""
    places: Indices = np.searchsorted(known, kinds)
    if len(kinds) and (places.max() == len(known) or not np.array_equal(known[places], kinds)):
        return None
    return places
