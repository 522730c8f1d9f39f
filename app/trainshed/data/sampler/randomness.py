"""Random numbers that depend on the row only: not on batches, caches or placement."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

U64 = np.uint64
# Constants of SplitMix64, from "Fast splittable pseudorandom number generators" (2014).
GAMMA = U64(0x9E3779B97F4A7C15)
MIX_1 = U64(0xBF58476D1CE4E5B9)
MIX_2 = U64(0x94D049BB133111EB)


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return pseudorandom bits for each state, in its shape: SplitMix64."""
    with np.errstate(over="ignore"):
        z = state + GAMMA
        z = (z ^ (z >> U64(30))) * MIX_1
        z = (z ^ (z >> U64(27))) * MIX_2
        return z ^ (z >> U64(31))


def digest(stored: bytes) -> int:
    """Return a 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(stored, digest_size=8).digest(), "little")


class RowRandom:
    """Draws one value (or array) per row; a pure function of (seed, epoch, row, function, call).

    Args:
        seed: the run's seed.
        epoch: 0-based.
        rows: (rows,) the rows' positions in the dataset.
        function: the position of the drawing function in its list.
    """

    def __init__(self, seed: int, epoch: int, rows: NDArray[np.int64], function: int = 0) -> None:
        key = np.zeros(1, dtype=np.uint64)
        for part in (seed, epoch, function):
            key = mix(key ^ np.asarray([part], dtype=np.uint64))
        # rows_key has shape (rows,)
        self._rows_key = mix(rows.astype(np.uint64) ^ key)
        self._calls = 0

    def _bits(self, size: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return new bits of shape (rows, *size)."""
        call = mix(self._rows_key ^ np.asarray([self._calls + 1], dtype=np.uint64))
        self._calls += 1
        if not size:
            return mix(call)
        lanes = np.arange(math.prod(size), dtype=np.uint64)
        return mix(call[:, None] ^ mix(lanes)[None, :]).reshape(len(call), *size)

    def integers(self, low: int, high: int, size: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Return integers in [low, high), shape (rows, *size).

        Raises:
            ValueError: if the range is empty.
        """
        if high <= low:
            raise ValueError(f"integers: got low={low}, high={high}; expected low < high")
        return (self._bits(size) % U64(high - low)).astype(np.int64) + low

    def random(self, size: tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Return floats in [0, 1), shape (rows, *size)."""
        return (self._bits(size) >> U64(11)).astype(np.float64) * 2.0**-53
