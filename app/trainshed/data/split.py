"""How the rows of an epoch become steps, and the rows of a step become rank batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def share(total: int, num_ranks: int, rank: int) -> int:
    """Return this rank's part of `total`; parts differ by at most one, larger ones first."""
    return total // num_ranks + (rank < total % num_ranks)


@dataclass(frozen=True)
class Split:
    """The steps of one epoch.

    Args:
        totals: (steps,) rows of each step over all ranks.
        num_ranks: number of workers.
        split: False when every rank sees all rows; `totals` are then the rows of each rank.
    """

    totals: tuple[int, ...]
    num_ranks: int
    split: bool = True

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return len(self.totals)

    def sizes(self, rank: int) -> NDArray[np.int64]:
        """Return this rank's rows in each step, shape (steps,)."""
        totals = np.asarray(self.totals, dtype=np.int64)
        if not self.split:
            return totals
        return totals // self.num_ranks + (rank < totals % self.num_ranks)

    def total(self, step: int) -> int:
        """Return the rows of all ranks' batches of a step."""
        return self.totals[step] * (1 if self.split else self.num_ranks)

    def bounds(self, rank: int) -> tuple[int, int]:
        """Return this rank's rows as [start, stop) of the epoch's order."""
        if not self.split:
            return 0, sum(self.totals)
        rows = [int(self.sizes(other).sum()) for other in range(rank + 1)]
        return sum(rows[:-1]), sum(rows)


def training_split(rows: int, batch_size: int, num_ranks: int, last: str, split: bool) -> Split:
    """Return the steps for training, every rank with at least one row in each.

    `last="keep"` keeps a last batch that is smaller; with fewer rows left than ranks they join the
    step before, because a rank without rows would have no gradient to add.
    """
    size = batch_size if split else share(batch_size, num_ranks, 0)
    floor = num_ranks if split else 1
    full, rest = divmod(rows, size)
    totals = [size] * full
    if rest and last == "keep":
        if rest >= floor or not totals:
            totals.append(rest)
        else:
            totals[-1] += rest
    return Split(tuple(totals), num_ranks, split)


def exact_split(rows: int, batch_size: int, num_ranks: int) -> Split:
    """Return the steps for evaluation: every row once, even where a rank then has none."""
    full, rest = divmod(rows, batch_size)
    return Split((batch_size,) * full + ((rest,) if rest else ()), num_ranks)


def even_split(rows: int, batch_size: int, num_ranks: int, split: bool) -> Split:
    """Return steps with equally many rows a rank, as Ray's own split gives.

    Fewer than num_ranks rows are dropped; no rank gets more than its share of `batch_size` at once.
    """
    turns = num_ranks if split else 1
    size = max(1, batch_size // num_ranks)
    full, rest = divmod(rows // turns, size)
    sizes = (size,) * full + ((rest,) if rest else ())
    return Split(tuple(turns * rows for rows in sizes), num_ranks, split)
