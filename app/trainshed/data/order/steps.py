"""How the rows of an epoch become steps, and the rows of a step become rank batches. Pure."""

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
    """The steps of one epoch, and which rows of the epoch's order each rank gets in them.

    The order is dealt out in turns: rank 0 gets the rows of its next few steps, then rank 1, ...
    So one reader that goes through the order once feeds all ranks at the same pace.

    Args:
        size: rows of a full step over all ranks.
        full: number of full steps.
        last: rows of one more step after them; 0 when there is none.
        num_ranks: number of workers.
        turn_rows: rows that a rank gets in a row, rounded down to whole steps, one at least.
        split: False when every rank sees all rows; `size` and `last` are then of each rank.
    """

    size: int
    full: int
    last: int
    num_ranks: int
    turn_rows: int = 1
    split: bool = True

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return self.full + bool(self.last)

    @property
    def rows(self) -> int:
        """Return the rows of all steps, each counted once."""
        return self.size * self.full + self.last

    def sizes(self, rank: int) -> NDArray[np.int64]:
        """Return this rank's rows in each step, shape (steps,)."""
        sizes = np.full(self.steps, self._mine(self.size, rank), dtype=np.int64)
        if self.last:
            sizes[-1] = self._mine(self.last, rank)
        return sizes

    def rank_rows(self, rank: int, steps: int | None = None) -> int:
        """Return this rank's rows in the first `steps` steps, or in all."""
        steps = self.steps if steps is None else steps
        in_last = self._mine(self.last, rank) if steps > self.full else 0
        return self._mine(self.size, rank) * min(steps, self.full) + in_last

    def total(self, step: int) -> int:
        """Return the rows of all ranks' batches of a step."""
        rows = self.size if step < self.full else self.last
        return rows * (1 if self.split else self.num_ranks)

    def spans(self) -> NDArray[np.int64]:
        """Return what each rank gets in each turn: [start, stop) along the epoch's order.

        Returns:
            Shape (turns, ranks, 2); one rank only when every rank sees all rows.
        """
        ranks = range(self.num_ranks if self.split else 1)
        steps_a_turn = max(1, self.turn_rows // max(1, self._mine(self.size, 0)))
        first_steps = np.arange(0, self.steps, steps_a_turn)
        if not self.steps:
            return np.empty((0, len(ranks), 2), dtype=np.int64)
        # rows has shape (turns, ranks)
        rows = np.stack([np.add.reduceat(self.sizes(rank), first_steps) for rank in ranks], axis=1)
        ends = np.cumsum(rows).reshape(rows.shape)
        return np.stack([ends - rows, ends], axis=2)

    def rank_spans(self, rank: int, done: int = 0) -> NDArray[np.int64]:
        """Return this rank's [start, stop) in each turn without its first `done` rows.

        Returns:
            Shape (turns left, 2).
        """
        mine = self.spans()[:, rank if self.split else 0]
        rows = mine[:, 1] - mine[:, 0]
        # before has shape (turns,): this rank's rows in the turns before
        before = np.cumsum(rows) - rows
        starts = np.minimum(mine[:, 1], mine[:, 0] + np.maximum(0, done - before))
        left = np.stack([starts, mine[:, 1]], axis=1)
        return left[left[:, 0] < left[:, 1]]

    def _mine(self, rows: int, rank: int) -> int:
        return share(rows, self.num_ranks, rank) if self.split else rows


def training_split(  # noqa: PLR0913, PLR0917 - what the spec says about steps
    rows: int, batch_size: int, num_ranks: int, last: str, split: bool, turn_rows: int = 1
) -> Split:
    """Return the steps for training, every rank with at least one row in each.

    `last="keep"` keeps a last batch that is smaller; with fewer rows left than ranks they join the
    step before, because a rank without rows would have no gradient to add.
    """
    size = batch_size if split else share(batch_size, num_ranks, 0)
    floor = num_ranks if split else 1
    full, rest = divmod(rows, size)
    if last == "drop":
        rest = 0
    elif 0 < rest < floor:
        full, rest = (full - 1, size + rest) if full else (0, 0)
    return Split(size, full, rest, num_ranks, turn_rows, split)


def exact_split(rows: int, batch_size: int, num_ranks: int, turn_rows: int = 1) -> Split:
    """Return the steps for evaluation: every row once, even where a rank then has none."""
    full, rest = divmod(rows, batch_size)
    return Split(batch_size, full, rest, num_ranks, turn_rows)


def even_split(
    rows: int, batch_size: int, num_ranks: int, split: bool, turn_rows: int = 1
) -> Split:
    """Return steps with equally many rows a rank, as Ray's own split gives.

    Fewer than num_ranks rows are dropped; no rank gets more than its share of `batch_size` at once.
    """
    turns = num_ranks if split else 1
    size = max(1, batch_size // num_ranks)
    full, rest = divmod(rows // turns, size)
    return Split(turns * size, full, turns * rest, num_ranks, turn_rows, split)
