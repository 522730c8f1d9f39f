"""Row order as a pure function of (seed, epoch, number of workers).

No cache, placement, timing or counter of Ray's takes part: an epoch is replayed from its number.
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
        _, first, number = np.unique(np.asarray(files), return_index=True, return_inverse=True)
        place = np.random.default_rng([seed, FILES, epoch]).permutation(len(first))
        # A stable sort by the new place of its file keeps a file's fragments in their order.
        return np.argsort(place[number], kind="stable").astype(np.int64)
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


def indices(spans: Indices) -> Indices:
    """Return the numbers of all spans one after the other, shape (rows,).

    Args:
        spans: (spans, 2) [start, stop) of each.
    """
    parts = [np.arange(start, stop, dtype=np.int64) for start, stop in spans]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def cut(order: Indices, counts: Indices, spans: Indices) -> list[Piece]:
    """Return the pieces that hold the spans' rows, in their order.

    Args:
        order: (fragments,) fragment numbers.
        counts: (all fragments,) rows of each fragment.
        spans: (spans, 2) rows [start, stop) of each span, counted along `order`.
    """
    pieces = []
    # ends has shape (fragments,): where each fragment of the order ends
    ends = np.cumsum(counts[order])
    positions = np.searchsorted(ends, spans[:, 0], side="right")
    for (first, stop), position in zip(spans.tolist(), positions.tolist(), strict=True):
        start = first
        while start < stop:
            end = int(ends[position])
            fragment = int(order[position])
            begin = end - int(counts[fragment])
            if end > start:
                pieces.append(Piece(fragment, start - begin, min(stop, end) - begin))
                start = min(stop, end)
            position += 1  # noqa: PLW2901 - walks on from where the span starts
    return pieces
