"""Row order as a pure function of (seed, epoch, number of workers).

No cache, placement, timing or counter of Ray's takes part: an epoch can be replayed from its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Indices = NDArray[np.int64]

# One number for each use of the seed, so that no two orders are drawn from the same stream.
FILES, BLOCKS, GLOBAL, LOCAL = 1, 2, 3, 4


@dataclass(frozen=True)
class Piece:
    """Rows [start, stop) of one fragment."""

    fragment: int
    start: int
    stop: int

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
        names, first = np.unique(np.asarray(files), return_index=True)
        names = names[np.argsort(first)]
        shuffled = np.random.default_rng([seed, FILES, epoch]).permutation(names)
        return np.concatenate([identity[np.asarray(files) == name] for name in shuffled])
    if mode == "blocks":
        return np.random.default_rng([seed, BLOCKS, epoch]).permutation(identity)
    return identity


def global_order(rows: int, seed: int, epoch: int) -> Indices:
    """Return a permutation of all rows, shape (rows,)."""
    return np.random.default_rng([seed, GLOBAL, epoch]).permutation(rows)


def window_order(window: int, rows: int, seed: int, epoch: int, rank: int) -> Indices:
    """Return a permutation of one window of a rank's rows, shape (rows,)."""
    return np.random.default_rng([seed, LOCAL, epoch, rank, window]).permutation(rows)


def local_order(rows: int, window_rows: int, seed: int, epoch: int, rank: int) -> Indices:
    """Return a rank's rows shuffled window by window, shape (rows,)."""
    parts = [
        start + window_order(number, min(window_rows, rows - start), seed, epoch, rank)
        for number, start in enumerate(range(0, rows, window_rows))
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def cut(order: Indices, counts: Indices, start: int, stop: int) -> list[Piece]:
    """Return the pieces that hold rows [start, stop) of the fragments in the given order.

    Args:
        order: (fragments,) fragment numbers.
        counts: (all fragments,) rows of each fragment.
        start: first row, counted along `order`.
        stop: one past the last row.
    """
    pieces = []
    # ends has shape (fragments,) where each fragment of the order ends
    ends = np.cumsum(counts[order])
    position = int(np.searchsorted(ends, start, side="right"))
    while start < stop:
        fragment = int(order[position])
        begin = int(ends[position]) - int(counts[fragment])
        end = min(stop, int(ends[position]))
        if end > start:
            pieces.append(Piece(fragment, start - begin, end - begin))
        start = end
        position += 1
    return pieces


def interleave(pieces_by_rank: Sequence[Sequence[Piece]]) -> list[tuple[int, Piece]]:
    """Return (rank, piece) so that all ranks get their rows at the same pace."""
    keyed = []
    for rank, pieces in enumerate(pieces_by_rank):
        rows_before = 0
        for piece in pieces:
            keyed.append((rows_before, rank, piece))
            rows_before += piece.rows
    return [(rank, piece) for _, rank, piece in sorted(keyed, key=lambda entry: entry[:2])]
