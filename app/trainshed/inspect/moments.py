"""Statistics of numbers in one pass: min, max, mean, deviation, sum; parts can be merged.

Merging uses the difference of means, and squared distances to the mean, to stay accurate for
numbers far from 0 (Chan, Golub and LeVeque, 1979). Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trainshed.data.sources.column_arrays import Array

# Numbers converted to float at once: for images that takes eight times the memory.
PIECE = 2**18
# Bits of each half of an integer, so that many halves can be added exactly.
_HALF_BITS = 32


@dataclass(frozen=True)
class Moments:
    """Statistics of some numbers.

    Args:
        count: how many.
        mean: of them.
        squares: sum of the squared distances to the mean.
        least: the smallest; an integer for integers.
        most: the largest.
        total: their sum, exact for integers.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    total: float = 0

    @property
    def std(self) -> float | None:
        """Return the sample standard deviation (n - 1), as Ray Data does; None for one number."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else None


def moments_of(numbers: Array) -> Moments:
    """Return the statistics of an array without missing values."""
    flat, found = numbers.reshape(-1), Moments()
    for start in range(0, len(flat), PIECE):
        found = merged(found, _of_piece(flat[start : start + PIECE]))
    return found


def merged(one: Moments, other: Moments) -> Moments:
    """Return the statistics of both together."""
    if not (one.count and other.count):
        return one if one.count else other
    count, apart = one.count + other.count, other.mean - one.mean
    if math.isfinite(apart):
        mean = one.mean + apart * other.count / count
        squares = one.squares + other.squares + apart * apart * one.count * other.count / count
    else:
        mean, squares = one.mean + other.mean, math.nan
    return Moments(
        count,
        mean,
        squares,
        min(one.least, other.least),
        max(one.most, other.most),
        _sum(one.total, other.total),
    )


def _sum(one: float, other: float) -> float:
    """Return the sum; exact for integers, although those beside missing values may be floats."""
    if float(one).is_integer() and float(other).is_integer() and int in {type(one), type(other)}:
        return int(one) + int(other)
    return one + other


def _of_piece(numbers: Array) -> Moments:
    if numbers.dtype.kind == "b":
        numbers = numbers.view(np.uint8)
    floats = numbers.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = floats.mean()
        squares = np.square(floats - mean).sum()
        total = float(floats.sum()) if numbers.dtype.kind == "f" else _sum_of_integers(numbers)
    as_number = float if numbers.dtype.kind == "f" else int
    return Moments(
        len(numbers),
        float(mean),
        float(squares),
        as_number(numbers.min()),
        as_number(numbers.max()),
        total,
    )


def _sum_of_integers(numbers: Array) -> int:
    """Return the exact sum, which may exceed 64 bits."""
    if numbers.dtype.itemsize * 8 <= _HALF_BITS:
        return int(numbers.sum(dtype=np.int64))
    wide = numbers.astype(numbers.dtype.newbyteorder("="))
    upper, lower = np.divmod(wide, wide.dtype.type(1 << _HALF_BITS))
    return (int(upper.sum()) << _HALF_BITS) + int(lower.sum())
