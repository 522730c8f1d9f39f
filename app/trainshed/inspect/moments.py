"""What is said of many numbers by one: least, most, mean, spread, sum; in parts that are merged.

Means of parts are merged by their difference, and squares are those of distances to the mean, so
that little is lost where numbers are far from 0 (Chan, Golub and LeVeque, 1979). Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trainshed.data.sources.column_arrays import Array

# Made into floats at once: of pictures those are eight times as large.
PIECE = 2**18
# Of an integer's two halves, each of which can be added up that often.
_HALF_BITS = 32


@dataclass(frozen=True)
class Moments:
    """What is known of some numbers.

    Args:
        count: how many.
        mean: of them.
        squares: sum of the squared distances to the mean.
        least: the smallest; an integer where these are.
        most: the largest.
        total: their sum, which of integers is exact.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    total: float = 0

    @property
    def std(self) -> float | None:
        """Return the standard deviation as Ray Data has it, by one number less; None of one."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else None


def moments_of(numbers: Array) -> Moments:
    """Return what is known of an array of numbers, of which none is missing."""
    flat, found = numbers.reshape(-1), Moments()
    for start in range(0, len(flat), PIECE):
        found = merged(found, _of_piece(flat[start : start + PIECE]))
    return found


def merged(one: Moments, other: Moments) -> Moments:
    """Return what is known of both together."""
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
        one.total + other.total,
    )


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
    """Return the exact sum, which 64 bits may not hold."""
    if numbers.dtype.itemsize * 8 <= _HALF_BITS:
        return int(numbers.sum(dtype=np.int64))
    wide = numbers.astype(numbers.dtype.newbyteorder("="))
    upper, lower = np.divmod(wide, wide.dtype.type(1 << _HALF_BITS))
    return (int(upper.sum()) << _HALF_BITS) + int(lower.sum())
