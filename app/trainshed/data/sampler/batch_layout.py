"""How the rows of an epoch become steps, and the rows of a step become slices. Pure.

Step s takes rows [s x size, (s + 1) x size) along the epoch's order, whatever the number of ranks;
a rank owns the same slots of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def share(total: int, num_ranks: int, rank: int) -> int:
    """Return this rank's part of `total`; parts differ by at most one, larger ones first."""
    return total // num_ranks + (rank < total % num_ranks)


def share_start(total: int, num_ranks: int, rank: int) -> int:
    """Return where this rank's part of `total` begins: the parts of the ranks before it."""
    return total // num_ranks * rank + min(rank, total % num_ranks)


def part_spans(rows: int, total: int, most: int, num_ranks: int) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a rank's rows of a step begin and end: as many on every rank.

    All ranks have a row for each: FSDP's gather its weights in each of them.

    Args:
        rows: of the rank that count; where none does one is there too.
        total: that count, of all ranks.
        most: parts.
        num_ranks: number of workers.
    """
    rows = max(1, rows)
    count = min(most, max(1, total // num_ranks))
    for number in range(count):
        start = share_start(rows, count, number)
        yield start, start + share(rows, count, number)


@dataclass(frozen=True)
class BatchLayout:
    """The steps of one epoch, and which slots of each are a rank's.

    Args:
        size: rows of a full step over all ranks.
        full: number of full steps.
        last: rows of one more step after them; 0 when there is none.
        num_ranks: number of workers.
        split: False when every rank gets all rows; `size` and `last` are then of each rank.
        lends: whether a rank that the last step has no row for gets that step's last one, which
            counts for nothing there: without a row it would have no gradient to add.
    """

    size: int
    full: int
    last: int
    num_ranks: int
    split: bool = True
    lends: bool = False

    @property
    def count(self) -> int:
        """Return the number of steps."""
        return self.full + bool(self.last)

    @property
    def rows(self) -> int:
        """Return the rows of all steps, each counted once."""
        return self.size * self.full + self.last

    @property
    def borrowers(self) -> range:
        """Return the ranks that the last step has no row for, and that get one of another's."""
        lends = self.split and self.lends and self.last
        return range(self.last, self.num_ranks) if lends else range(0)

    @property
    def has_one_reader(self) -> bool:
        """Say whether there is one sequence of rows alone: of one rank, or the same for all."""
        return not self.split or self.num_ranks == 1

    def owners(self, step: int) -> range:
        """Return the ranks with rows of their own in a step; one stands for all that get all."""
        if self.has_one_reader:
            return range(1)
        return range(
            self.borrowers.start if step >= self.full and self.borrowers else self.num_ranks
        )

    def start(self, step: int) -> int:
        """Return where a step begins along the epoch's order."""
        return min(step * self.size, self.rows)

    def total(self, step: int) -> int:
        """Return the rows that count in a step, of all ranks."""
        rows = self.size if step < self.full else self.last
        return rows * (1 if self.split else self.num_ranks)

    def counting(self, rank: int) -> NDArray[np.int64]:
        """Return how many of this rank's rows count in each step, shape (steps,)."""
        return self._by_step(self._share(self.size, rank), self._share(self.last, rank))

    def sizes(self, rank: int) -> NDArray[np.int64]:
        """Return this rank's rows in each step, borrowed ones too, shape (steps,)."""
        return self._by_step(self._given(self.size, rank), self._given(self.last, rank))

    def rows_in(self, rank: int, first: int, stop: int) -> int:
        """Return this rank's rows in steps [first, stop), borrowed ones too."""
        rows = max(0, min(stop, self.full) - first) * self._given(self.size, rank)
        return rows + (self._given(self.last, rank) if first <= self.full < stop else 0)

    def slots(self, rank: int) -> slice:
        """Return this rank's slots in a full step."""
        return self._slots(self.size, rank)

    def places(self, rank: int, first: int, stop: int) -> NDArray[np.int64]:
        """Return where this rank's rows of steps [first, stop) are along the epoch's order."""
        slots = np.arange(self.size, dtype=np.int64)[self.slots(rank)]
        begins = np.arange(first, min(stop, self.full), dtype=np.int64) * self.size
        places = (begins[:, None] + slots).reshape(-1)
        if not first <= self.full < stop:
            return places
        last = np.arange(self.last, dtype=np.int64)[self._slots(self.last, rank)]
        return np.concatenate([places, self.start(self.full) + last])

    def within(self, rank: int, start: int, stop: int) -> slice | NDArray[np.int64]:
        """Return which of the rows [start, stop) of the epoch's order are this rank's.

        Returns:
            Counted from `start`, in their order.
        """
        if self.has_one_reader:
            return slice(None)
        # Of the steps that the rows belong to, the first and the last in part.
        places = self.places(rank, start // self.size, -(-stop // self.size))
        low, high = np.searchsorted(places, [start, stop])
        return places[low:high] - start

    def rows_within(self, rank: int, start: int, stop: int) -> int:
        """Return how many of the rows [start, stop) of the epoch's order are this rank's."""
        return self._rows_before(rank, stop) - self._rows_before(rank, start)

    def _rows_before(self, rank: int, place: int) -> int:
        """Return this rank's rows before a place of the epoch's order."""
        step = min(place // self.size, self.full)
        slots = self._slots(self.size if step < self.full else self.last, rank)
        low, high = int(slots.start), int(slots.stop)
        return self.rows_in(rank, 0, step) + min(max(place - self.start(step), low), high) - low

    def _slots(self, rows: int, rank: int) -> slice:
        """Return this rank's slots in a step of so many rows."""
        if not self.split:
            return slice(0, rows)
        given = self._given(rows, rank)
        start = min(share_start(rows, self.num_ranks, rank), rows - given)
        return slice(start, start + given)

    def _given(self, rows: int, rank: int) -> int:
        mine = self._share(rows, rank)
        return 1 if rows and not mine and self.lends else mine

    def _share(self, rows: int, rank: int) -> int:
        return share(rows, self.num_ranks, rank) if self.split else rows

    def _by_step(self, full: int, last: int) -> NDArray[np.int64]:
        sizes = np.full(self.count, full, dtype=np.int64)
        if self.last:
            sizes[-1] = last
        return sizes


def training_steps(
    rows: int, batch_size: int, num_ranks: int, last: str, split: bool
) -> BatchLayout:
    """Return the steps for training, every rank with at least one row in each.

    `last="keep"` keeps a last step that is smaller.
    """
    size = batch_size if split else share(batch_size, num_ranks, 0)
    full, rest = divmod(rows, size)
    return BatchLayout(size, full, 0 if last == "drop" else rest, num_ranks, split, lends=True)


def exact_steps(rows: int, batch_size: int, num_ranks: int) -> BatchLayout:
    """Return the steps for evaluation: every row once, even where a rank then has none."""
    return BatchLayout(batch_size, *divmod(rows, batch_size), num_ranks)


def whole_steps(rows: int, batch_size: int, num_ranks: int) -> BatchLayout:
    """Return steps in which every rank gets all rows."""
    size = share(batch_size, num_ranks, 0)
    return BatchLayout(size, *divmod(rows, size), num_ranks, split=False)


def even_steps(rows: int, batch_size: int, num_ranks: int, split: bool) -> BatchLayout:
    """Return steps with equally many rows a rank, as Ray's own split gives.

    Fewer than num_ranks rows are left out; a step has the most rows up to `batch_size` that all
    ranks can share evenly, one each at least.
    """
    takers = num_ranks if split else 1
    each = max(1, batch_size // num_ranks)
    full, rest = divmod(rows // takers, each)
    return BatchLayout(takers * each, full, takers * rest, num_ranks, split)
