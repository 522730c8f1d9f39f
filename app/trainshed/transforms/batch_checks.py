"""Checks of a batch and of a function's options, before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainshed_api.errors import no_column

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[np.generic]
Batch = dict[str, Array]
Pixels = NDArray[np.uint8]

_LARGEST = float(np.finfo(np.float64).max)

# Weights of red, green and blue in a gray value, in parts of 65536: ITU-R 601-2, as in Pillow.
GREY = (19595, 38470, 7471)


def get_column(batch: Batch, name: str, function: str) -> Array:
    """Return a column.

    Raises:
        ValueError: naming the existing columns.
    """
    if name not in batch:
        raise ValueError(f"{function}: {no_column(name, batch)}")
    return batch[name]


def get_pictures(batch: Batch, name: str, function: str) -> Array:
    """Return a column of decoded pictures: (B, H, W) or (B, H, W, C).

    Raises:
        ValueError: if it holds anything else.
    """
    pictures = get_column(batch, name, function)
    if pictures.ndim not in (3, 4):
        raise ValueError(
            f'{function}: column "{name}" has the shape {pictures.shape}, pictures have '
            "(rows, height, width) or (rows, height, width, channels); decode them first"
        )
    return pictures


def get_pixels(batch: Batch, name: str, function: str) -> Pixels:
    """Return a column of uint8 pictures: gray (B, H, W) or color (B, H, W, 3).

    Raises:
        ValueError: if it holds anything else.
    """
    pictures = get_pictures(batch, name, function)
    if pictures.dtype != np.uint8 or pictures.shape[3:] not in ((), (3,)):
        raise ValueError(
            f'{function}: column "{name}" holds {pictures.dtype} of the shape {pictures.shape}, '
            "must hold bytes (uint8) of 3 channels or none; put it before normalize"
        )
    return pictures.astype(np.uint8, copy=False)


def as_number(function: str, option: str, value: object, least: float, most: float) -> float:
    """Return an option that is a number in [least, most].

    Raises:
        ValueError: if it is not.
    """
    match value:
        case bool():  # bool is a subclass of int
            pass
        case int() | float() as number if least <= number <= most and np.isfinite(number):
            return float(number)
    if most == np.inf:
        expected = "a number" if least == -np.inf else f"a number, {least:g} or more"
    else:
        expected = f"a number from {least:g} to {most:g}"
    raise ValueError(f"{function}: {option} is {_say(value)}, must be {expected}")


def as_count(function: str, option: str, value: object) -> int:
    """Return an option that is an integer of at least 1.

    Raises:
        ValueError: if it is not.
    """
    match value:
        case bool():  # bool is a subclass of int
            pass
        case int() as number if number >= 1:
            return number
    raise ValueError(f"{function}: {option} is {_say(value)}, must be a whole number from 1 on")


def as_names(function: str, option: str, value: object) -> list[str]:
    """Return an option that is a list of one or more names.

    Raises:
        ValueError: if it is not.
    """
    match value:
        case [str(), *_]:
            names = [name for name in value if isinstance(name, str)]
            if len(names) == len(value):
                return names
    raise ValueError(f"{function}: {option} is {_say(value)}, must be a list of names")


def as_range(
    function: str, option: str, value: object, most: float = np.inf
) -> tuple[float, float]:
    """Return an option that is two positive numbers in ascending order.

    Raises:
        ValueError: if it is not.
    """
    match value:
        case [int() | float() as low, int() | float() as high] if (
            0 < low <= high <= min(most, _LARGEST)
        ):
            return float(low), float(high)
    bounds = "" if most == np.inf else f" and at most {most:g}"
    raise ValueError(
        f"{function}: {option} is {_say(value)}, must be two numbers larger than 0{bounds}, "
        "the smaller one first"
    )


def as_size(function: str, value: object) -> tuple[int, int]:
    """Return the height and width given by `size`: one number for both, or two numbers.

    Raises:
        ValueError: if it is neither.
    """
    match value:
        case bool() | [bool(), _] | [_, bool()]:  # bool is a subclass of int
            sides = None
        case int() as side:
            sides = side, side
        case [int() as height, int() as width]:
            sides = height, width
        case _:
            sides = None
    if sides is None:
        raise ValueError(
            f"{function}: size is {_say(value)}, must be a number of pixels or [height, width]"
        )
    if min(sides) < 1:
        said = sides[0] if sides[0] == sides[1] else list(sides)
        raise ValueError(f"{function}: size is {said}, must be at least 1 pixel")
    return sides


def as_one_of(function: str, option: str, value: object, known: Sequence[str]) -> str:
    """Return an option that is one of a few choices.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, str) and value in known:
        return value
    *others, last = known
    raise ValueError(f'{function}: {option} is "{value}", known are {", ".join(others)} and {last}')


def as_flag(function: str, option: str, value: object) -> bool:
    """Return a Boolean option.

    Raises:
        ValueError: if it is not Boolean.
    """
    if isinstance(value, bool):
        return value
    raise ValueError(f"{function}: {option} is {_say(value)}, must be true or false")


def _say(value: object) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    return f'"{value}"' if isinstance(value, str) else str(value)
