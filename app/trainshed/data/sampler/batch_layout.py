"""Divides the rows of an epoch into steps, and the rows of a step among ranks. Pure.

Step s takes rows [s x size, (s + 1) x size) of the epoch's order, for any number of ranks; a rank
has the same slots in each step. The rows of a full step may be rotated over its slots, by another
number in each step: rows that are a multiple of a step apart are then in different slots, so a
shuffle that moves rows between steps within their slot may bring them into one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.permutation import LOCAL
from trainshed.data.sampler.randomness import RowRandom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def share(total: int, world_size: int, rank: int) -> int:
    """Return this rank's part of `total`; parts differ by at most one, larger ones first."""
    return total // world_size + (rank < total % world_size)


def share_start(total: int, world_size: int, rank: int) -> int:
    """Return the start of this rank's part of `total`: the parts of the ranks before it."""
    return total // world_size * rank + min(rank, total % world_size)


def part_spans(rows: int, total: int, most: int, world_size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of a rank's rows in a step: equally many on every rank.

    All ranks have a row for each part, as FSDP gathers its weights in each of them.

    Args:
        rows: of the rank that count; without any the rank repeats one.
        total: counted rows of all ranks.
        most: maximum number of parts.
        world_size: number of workers.
    """
    rows = max(1, rows)
    count = min(most, max(1, total // world_size))
    for number in range(count):
        start = share_start(rows, count, number)
        yield start, start + share(rows, count, number)


@dataclass(frozen=True)
class BatchLayout:
    """The steps of one epoch, and a rank's slots in each.

    Args:
        size: rows of a full step over all ranks.
        full: number of full steps.
        last: rows of one more step after them; 0 when there is none.
        world_size: number of workers.
        split: False if every rank gets all rows; `size` and `last` are then per rank.
        lends: whether a rank without a row in the last step repeats that step's last one, which
            does not count there: without a row it would have no gradient to add.
        rotation: seed of the rotations of full steps; None for none.
    """

    size: int
    full: int
    last: int
    world_size: int
    split: bool = True
    lends: bool = False
    rotation: int | None = None

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
        """Return the number of ranks without a row in the last step, which repeat another's."""
        lends = self.split and self.lends and self.last
        return range(self.last, self.world_size) if lends else range(0)

    @property
    def has_one_reader(self) -> bool:
        """Return whether there is only one sequence of rows: of one rank, or the same for all."""
        return not self.split or self.world_size == 1

    def owners(self, step: int) -> range:
        """Return the ranks with separate rows in a step; one represents all if all get the same."""
        if self.has_one_reader:
            return range(1)
        return range(
            self.borrowers.start if step >= self.full and self.borrowers else self.world_size
        )

    def start(self, step: int) -> int:
        """Return the start of a step in the epoch's order."""
        return min(step * self.size, self.rows)

    def total(self, step: int) -> int:
        """Return the number of counted rows in a step, over all ranks."""
        rows = self.size if step < self.full else self.last
        return rows * (1 if self.split else self.world_size)

    def sizes(self, rank: int, *, counted: bool = False) -> NDArray[np.int64]:
        """Return the number of this rank's rows in each step, shape (steps,).

        counted: leave out repeated rows.
        """
        rows_of = self._share if counted else self._given
        sizes = np.full(self.count, rows_of(self.size, rank), dtype=np.int64)
        if self.last:
            sizes[-1] = rows_of(self.last, rank)
        return sizes

    def rows_in(self, rank: int, first: int, stop: int) -> int:
        """Return the number of this rank's rows in steps [first, stop), with repeated ones."""
        rows = max(0, min(stop, self.full) - first) * self._given(self.size, rank)
        return rows + (self._given(self.last, rank) if first <= self.full < stop else 0)

    def places(self, rank: int, first: int, stop: int) -> NDArray[np.int64]:
        """Return the positions of this rank's rows of steps [first, stop) in the epoch's order."""
        steps = np.arange(first, min(stop, self.full), dtype=np.int64)
        begins, wrapped = self._ranges(rank, steps)
        number = np.arange(self._given(self.size, rank), dtype=np.int64)
        # inside has shape (steps, rows of this rank in a step): rows from the wrapped range first
        inside = np.where(
            number < wrapped[:, None], number, begins[:, None] + number - wrapped[:, None]
        )
        places = (steps[:, None] * self.size + inside).reshape(-1)
        if not first <= self.full < stop:
            return places
        last = np.arange(self.last, dtype=np.int64)[self.slots(self.last, rank)]
        return np.concatenate([places, self.start(self.full) + last])

    def within(self, rank: int, start: int, stop: int) -> slice | NDArray[np.int64]:
        """Return which of the rows [start, stop) of the epoch's order belong to this rank.

        Returns:
            Positions relative to `start`, in order.
        """
        if self.has_one_reader:
            return slice(None)
        # The rows may contain only a part of the first and of the last step.
        places = self.places(rank, start // self.size, -(-stop // self.size))
        low, high = np.searchsorted(places, [start, stop])
        return places[low:high] - start

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield ranks and their rows of [start, stop) of the epoch's order, as they are delivered.

        Rows of several steps are delivered rank by rank; those of one step as they are in the
        order, so that nobody holds them: there a rank may have two pieces, one of them wrapped.
        """
        step = start // self.size
        if self.rotation is None or step >= self.full or stop > self.start(step + 1):
            for rank in self.owners(step):
                yield rank, self.rows_before(rank, stop) - self.rows_before(rank, start)
            return
        found: list[tuple[int, int, int]] = []
        for rank in self.owners(step):
            [begin], [wrapped] = self._ranges(rank, np.asarray([step], dtype=np.int64)).tolist()
            end = begin + self._given(self.size, rank) - wrapped
            found += [(0, wrapped, rank), (begin, end, rank)]
        low, high = start - self.start(step), stop - self.start(step)
        for begin, end, rank in sorted(found):
            yield rank, max(0, min(end, high) - max(begin, low))

    def rows_before(self, rank: int, place: int) -> int:
        """Return the number of this rank's rows before a position in the epoch's order."""
        step = min(place // self.size, self.full)
        before, inside = self.rows_in(rank, 0, step), place - self.start(step)
        if step < self.full:
            [begin], [wrapped] = self._ranges(rank, np.asarray([step], dtype=np.int64)).tolist()
            rows = self._given(self.size, rank) - wrapped
            return before + int(min(inside, wrapped) + min(max(inside - begin, 0), rows))
        slots = self.slots(self.last, rank)
        return before + int(min(max(inside - slots.start, 0), slots.stop - slots.start))

    def by_slot(self, rank: int, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of this rank's rows of a full step is in each of its slots.

        Returns:
            Positions among the rank's rows of a step, shape (steps, slots).
        """
        _, wrapped = self._ranges(rank, steps)
        rows = self._given(self.size, rank)
        found: NDArray[np.int64] = (np.arange(rows, dtype=np.int64) + wrapped[:, None]) % max(
            1, rows
        )
        return found

    def _ranges(self, rank: int, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where a rank's rows begin in full steps, and how many are at the step's start.

        A rotation moves the slots of a rank to at most two ranges: [begin, ...), which may end at
        the end of the step, and [0, wrapped).

        Returns:
            begin and wrapped, shape (2, steps).
        """
        slots = self.slots(self.size, rank)
        begins = np.full(len(steps), slots.start, dtype=np.int64)
        if self.rotation is not None:
            drawn = RowRandom(self.rotation, 0, steps, LOCAL).integers(0, self.size)
            begins = (begins - drawn) % self.size
        return np.stack([begins, np.maximum(0, begins + slots.stop - slots.start - self.size)])

    def slots(self, rows: int, rank: int) -> slice:
        """Return this rank's slots in a step with this many rows."""
        if not self.split:
            return slice(0, rows)
        given = self._given(rows, rank)
        start = min(share_start(rows, self.world_size, rank), rows - given)
        return slice(start, start + given)

    def _given(self, rows: int, rank: int) -> int:
        mine = self._share(rows, rank)
        return 1 if rows and not mine and self.lends else mine

    def _share(self, rows: int, rank: int) -> int:
        return share(rows, self.world_size, rank) if self.split else rows


def training_steps(
    rows: int, batch_size: int, world_size: int, last: str, split: bool
) -> BatchLayout:
    """Return the steps for training, every rank with at least one row in each.

    `last="keep"` keeps a smaller last step.
    """
    size = batch_size if split else share(batch_size, world_size, 0)
    full, rest = divmod(rows, size)
    return BatchLayout(size, full, 0 if last == "drop" else rest, world_size, split, lends=True)


def exact_steps(rows: int, batch_size: int, world_size: int) -> BatchLayout:
    """Return the steps for evaluation: every row once, even if a rank then has none."""
    return BatchLayout(batch_size, *divmod(rows, batch_size), world_size)


def whole_steps(rows: int, batch_size: int, world_size: int) -> BatchLayout:
    """Return steps in which every rank gets all rows."""
    size = share(batch_size, world_size, 0)
    return BatchLayout(size, *divmod(rows, size), world_size, split=False)


def even_steps(rows: int, batch_size: int, world_size: int, split: bool) -> BatchLayout:
    """Return steps with equally many rows per rank, like Ray's split.

    Fewer than num_ranks rows are left out; a step has at most `batch_size` rows, equally many for
    each rank, and at least one.
    """
    takers = world_size if split else 1
    each = max(1, batch_size // world_size)
    full, rest = divmod(rows // takers, each)
    return BatchLayout(takers * each, full, takers * rest, world_size, split)
