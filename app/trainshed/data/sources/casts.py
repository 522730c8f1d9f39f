"""Finds values that another type of numbers cannot hold, before a column is converted to it.

NumPy and torch convert such values silently: NaN becomes some integer, 300 as uint8 becomes 44,
1e300 as float32 becomes infinite. The search takes 0.2 to 0.9 ns per value, and no time if the new
type holds all values of the old one. Pure.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    # The element type is the user's; the first axis is always the row.
    Array = NDArray[np.generic]


class _Float(NamedTuple):
    """A floating point type.

    Args:
        digits: binary digits of precision.
        exponent: largest exponent of 2.
    """

    digits: int
    exponent: int

    def fits(self, other: _Float, *, exactly: bool) -> bool:
        """Return whether converting to another type neither overflows nor rounds."""
        is_as_precise = self.digits <= other.digits
        if exactly or self.exponent == other.exponent:
            return is_as_precise and self.exponent <= other.exponent
        return self.exponent < other.exponent

    @property
    def most(self) -> float:
        """Return the largest finite value."""
        return (2 - 2.0 ** (1 - self.digits)) * 2.0**self.exponent


# Number of values that fit a core's cache for several passes.
_BLOCK_VALUES = 32_768
_LARGEST_BYTES = 8  # NumPy's longdouble is no type of torch or Arrow
_SINGLE = 24
_FLOATS = {
    "bfloat16": _Float(8, 127),  # NumPy has no such type
    "float16": _Float(11, 15),
    "float32": _Float(_SINGLE, 127),
    "float64": _Float(53, 1023),
}


@dataclass(frozen=True)
class Misfit:
    """The first value of a column that a type cannot represent.

    Args:
        row: its row in the column, from 0.
        value: as text.
        expected: what the type represents.
        remedy: what to do, a sentence.
    """

    row: int
    value: str
    expected: str
    remedy: str

    def __str__(self) -> str:
        return f"got {self.value}; expected {self.expected}. {self.remedy}"


def find_misfit(array: Array, wanted: str, *, exactly: bool = False) -> Misfit | None:
    """Return the first value of a numeric column that a type cannot represent; None if all fit.

    An integer type (bool as 0 and 1) represents integers of its range, and no NaN. A floating point
    type represents every number that it does not round to infinity, whether the column holds
    integers or floats.

    Args:
        array: of booleans, integers, floats or complex numbers, shape (rows, ...).
        wanted: name of the type, such as int64, float32 or bfloat16.
        exactly: whether rounding is a misfit, too.
    """
    if not array.size or (sure := _sure_range(array.dtype, wanted, exactly)) is None:
        return None
    if array.dtype.kind == "c":
        return _not_real(array, wanted, exactly=exactly)
    floats = _FLOATS.get(wanted)
    is_whole_wanted = array.dtype.kind == "f" and floats is None
    flat = array.reshape(-1)
    blocks = (flat[at : at + _BLOCK_VALUES] for at in range(0, len(flat), _BLOCK_VALUES))
    is_inside = all(_is_inside(block, sure, whole=is_whole_wanted) for block in blocks)
    if floats is None:
        first = _not_an_integer if array.dtype.kind == "f" else _not_in_range
        return None if is_inside else first(array, wanted)
    if array.dtype.kind == "f":
        return _not_a_float(array, wanted, floats, is_inside=is_inside, exactly=exactly)
    if is_inside:
        return None
    return _not_exact(array, wanted, floats) if exactly else _infinite(array, wanted, floats)


def common_type(arrays: Iterable[Array]) -> str | None:
    """Return the common NumPy type of numeric columns; None if one is not numeric."""
    dtypes = {array.dtype for array in arrays}
    if not all(dtype.kind in "biuf" and dtype.itemsize <= _LARGEST_BYTES for dtype in dtypes):
        return None
    return str(np.result_type(*dtypes).newbyteorder("=").name)


def exactly_as(array: Array, wanted: str) -> Array | Misfit:
    """Return a numeric column as another type, or the first value that would change."""
    if misfit := find_misfit(array, wanted, exactly=True):
        return misfit
    real: Array = array.real if array.dtype.kind == "c" else array
    return real.astype(wanted, copy=False)


@functools.cache
def _sure_range(
    dtype: np.dtype[np.generic], wanted: str, exactly: bool
) -> tuple[float, float] | None:
    """Return the range in which all integers of a column fit; None if all values fit.

    exactly: as in `find_misfit`.
    """
    if dtype.kind == "b" or dtype.name == wanted:
        return None
    floats = _FLOATS.get(wanted)
    if dtype.kind == "c":
        return 0, 0
    if dtype.kind == "f":
        if floats is None:
            low, high = _range_of(wanted)
            # Floats may round a bound outwards; then the last value is outside.
            return np.float64(low), np.nextafter(np.float64(high + 1), 0)
        if (own := _FLOATS.get(dtype.name)) and own.fits(floats, exactly=exactly):
            return None
        return -floats.most, floats.most
    least, most = _range_of(dtype.name)
    if floats is None:
        low, high = _range_of(wanted)
    else:
        high = 2**floats.digits if exactly else int(floats.most)
        low = -high
    return None if low <= least and most <= high else (low, high)


def _is_inside(values: Array, sure: tuple[float, float], *, whole: bool) -> bool:
    """Return whether all values are in a range, and integers if requested."""
    least, most = np.minimum.reduce(values), np.maximum.reduce(values)
    # Both are NaN if a value is, and then neither comparison is true.
    is_inside = bool(sure[0] <= least and most <= sure[1])
    return is_inside and (not whole or bool((np.trunc(values) == values).all()))


def _not_an_integer(array: Array, wanted: str) -> Misfit | None:
    low, high = _range_of(wanted)
    # As float64, or a bound would be infinite as float16.
    fits = (array >= np.float64(low)) & (array < np.float64(high + 1)) & (np.trunc(array) == array)
    if fits.all():
        return None
    value = float(array[~fits][0])
    if np.isnan(value):
        expected = f"a number, as {wanted} has none for a missing value"
        remedy = "Fill it in or leave its row out by a transform, or use a type of floats."
    elif low <= value < high + 1:
        expected = f"a whole number, as {wanted} has no fractions"
        remedy = "Round it by a transform, or use a type of floats."
    else:
        expected, remedy = _outside(wanted, low, high)
    return _first(array, ~fits, expected, remedy)


def _not_real(array: Array, wanted: str, *, exactly: bool) -> Misfit | None:
    if (wrong := array.imag != 0).any():
        expected = f"no imaginary part, as {wanted} has none"
        return _first(array, wrong, expected, "Make real numbers of it by a transform.")
    return find_misfit(array.real, wanted, exactly=exactly)


def _not_in_range(array: Array, wanted: str) -> Misfit:
    low, high = _range_of(wanted)
    wrong = np.less(array, low) | np.greater(array, high)
    return _first(array, wrong, *_outside(wanted, low, high))


def _infinite(array: Array, wanted: str, floats: _Float) -> Misfit | None:
    """Return the first finite number that a floating point type rounds to infinity."""
    # torch converts float64 to 16-bit types through float32, which rounds first.
    half = (2 - 2.0**-floats.digits) * 2.0**floats.exponent
    bound = half - 2.0 ** (floats.exponent - 24) if floats.digits < _SINGLE else half
    wrong = np.less_equal(array, -bound) | np.greater_equal(array, bound)
    if not (wrong.any() and (wrong := wrong & np.isfinite(array)).any()):
        return None
    most = f"{floats.most:.8g}"
    return _first(array, wrong, *_outside(wanted, f"-{most}", most))


def _not_exact(array: Array, wanted: str, floats: _Float) -> Misfit | None:
    """Return the first integer that a floating point type would round."""
    # Unsigned, because the least 64-bit integer has a larger magnitude.
    size: NDArray[np.uint64] = np.abs(array.astype(np.int64)).astype(np.uint64)
    if array.dtype.kind == "u":
        size = array.astype(np.uint64)
    lowest_bit = size & (~size + np.uint64(1))
    # More digits between the highest and lowest bit than a float has.
    wrong = (size != 0) & ((size >> np.uint64(floats.digits)) >= lowest_bit)
    if floats.most < 2**64:
        wrong |= size > np.uint64(floats.most)
    if not wrong.any():
        return None
    expected = f"an integer that {wanted} holds exactly, as it does each up to {2**floats.digits}"
    value = int(array[wrong][0])
    wider = ", or float64" if wanted != "float64" and int(float(value)) == value else ""
    remedy = (
        f"Use a type of integers{wider}, or convert it to floats in a transform if rounding is "
        "meant."
    )
    return _first(array, wrong, expected, remedy)


def _not_a_float(
    array: Array, wanted: str, floats: _Float, *, is_inside: bool, exactly: bool
) -> Misfit | None:
    if not is_inside and (misfit := _infinite(array, wanted, floats)):
        return misfit
    if exactly:
        with np.errstate(over="ignore"):  # overflow is checked explicitly
            wrong = (array.astype(wanted) != array) & ~np.isnan(array)
        if wrong.any():
            expected = f"a number that {wanted} holds exactly"
            return _first(array, wrong, expected, f"Return {wanted} from each call.")
    return None


def _range_of(name: str) -> tuple[int, int]:
    if name == "bool":
        return 0, 1
    found = np.iinfo(name)
    return int(found.min), int(found.max)


def _outside(wanted: str, low: object, high: object) -> tuple[str, str]:
    """Return what is expected of a value outside a type's range, and what to do."""
    return f"{low} to {high}, as {wanted} holds", "Use a wider type, or change it by a transform."


def _first(array: Array, wrong: NDArray[np.bool_], expected: str, remedy: str) -> Misfit:
    place = int(np.argmax(wrong))
    row = place // (array.size // len(array))
    return Misfit(row, str(array.reshape(-1)[place]), expected, remedy)
