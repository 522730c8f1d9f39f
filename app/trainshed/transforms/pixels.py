"""Encoded pictures as pixels: JPEG by libjpeg-turbo at once, all else by Pillow.

Colour profiles are ignored, and what EXIF says of the orientation unless it is asked for.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import simplejpeg
from PIL import ExifTags, Image, TiffImagePlugin

from trainshed.transforms.resize import Box, resize

if TYPE_CHECKING:
    from trainshed.transforms.batch_checks import Pixels

# What Pillow raises for bytes that are no picture, or only the beginning of one.
_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
)
# Pillow's modes of values with 32 bits, integers and floats.
_WIDE = ("I", "F")
_JPEG = b"\xff\xd8\xff"
# A JPEG is decoded at a half of its size or less where that leaves this many times the wanted
# pixels along each side: what is scaled then hardly differs (as with reducing_gap of Pillow).
_ROOM = 2
# Between a half and the whole it takes longer than the whole.
_EIGHTHS = (1, 2, 3, 4)


class Orientation(NamedTuple):
    """How a picture is to be seen: its axes change places first, then it is mirrored."""

    is_lying: bool
    mirrors_across: bool
    mirrors_down: bool


_AS_IT_LIES = Orientation(is_lying=False, mirrors_across=False, mirrors_down=False)
# What EXIF's numbers of an orientation mean.
_TURNS = {
    n: Orientation(n in {5, 6, 7, 8}, n in {2, 3, 6, 7}, n in {3, 4, 7, 8}) for n in range(1, 9)
}

# Of a picture's height and width: which part of it is wanted, and the height and width it becomes.
Choice = Callable[[int, int], tuple[Box, tuple[int, int]]]


def decode(value: object, mode: str, choose: Choice, *, upright: bool) -> Pixels:
    """Return the chosen part of an encoded picture: (H, W) for mode L, (H, W, 3) for RGB.

    Args:
        value: the encoded bytes, or a struct with them under `bytes`.
        mode: RGB or L.
        choose: which part becomes which size.
        upright: whether the picture is turned first, as its EXIF says.

    Raises:
        ValueError: when it cannot be read.
    """
    encoded = value.get("bytes") if isinstance(value, Mapping) else value
    try:
        if not isinstance(encoded, (bytes, bytearray, memoryview)):
            raise ValueError("no encoded bytes")
        return _decode(bytes(encoded), mode, choose, upright)
    except _UNREADABLE as error:
        raise ValueError(f"not a readable picture ({_describe(encoded)}): {error}") from error


def read_jpeg(encoded: bytes, mode: str, least: tuple[float, float]) -> tuple[Pixels, float]:
    """Return a JPEG's pixels, (H, W) for mode L, (H, W, 3) for RGB, and how far they are scaled.

    Args:
        encoded: the file.
        mode: RGB or L.
        least: the height and width that the whole picture is going to have. It is scaled here only
            where it stays larger by `_ROOM`.

    Raises:
        ValueError: when this is nothing for libjpeg-turbo alone.
        KeyError: when it has a subsampling that simplejpeg knows no name for.
    """
    height, width, colours, _ = simplejpeg.decode_jpeg_header(encoded)
    if colours not in ("YCbCr", "RGB", "Gray"):
        raise ValueError(f"colours are {colours}, which Pillow turns into others")
    if height * width > (Image.MAX_IMAGE_PIXELS or math.inf):
        raise ValueError("too large: Pillow guards against bombs")
    eighths = next(
        (n for n in _EIGHTHS if n * min(height / least[0], width / least[1]) >= _ROOM * 8), 8
    )
    pixels: Pixels = simplejpeg.decode_jpeg(
        encoded,
        "GRAY" if (colours, mode) == ("Gray", "L") else "RGB",
        min_height=math.ceil(height * eighths / 8),
        min_width=math.ceil(width * eighths / 8),
    )
    if pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    elif mode == "L":
        pixels = np.asarray(Image.fromarray(pixels).convert("L"))
    return pixels, eighths / 8


def _decode(encoded: bytes, mode: str, choose: Choice, upright: bool) -> Pixels:
    turn = _turn_of(encoded) if upright else _AS_IT_LIES
    if encoded.startswith(_JPEG):
        # What the library refuses Pillow takes, or says what is wrong with it.
        with suppress(ValueError, KeyError):
            shape = simplejpeg.decode_jpeg_header(encoded)[:2]
            return _part(shape, partial(read_jpeg, encoded, mode), choose, turn)
    with Image.open(io.BytesIO(encoded)) as picture:
        pixels = _pixels(picture, mode)
    return _part(pixels.shape[:2], lambda _: (pixels, 1.0), choose, turn)


def _pixels(picture: Image.Image, mode: str) -> Pixels:
    """Return the pixels of a picture's first frame, (H, W) for mode L, (H, W, 3) for RGB."""
    if picture.mode in _WIDE:
        raise ValueError(
            f"its values have 32 bits (mode {picture.mode}), and nothing says which one is white: "
            "scale it by a transform of your own"
        )
    if not picture.mode.startswith("I;16"):
        return np.asarray(picture.convert(mode))
    # Pillow's own way to 8 bits makes white of all that is above 255.
    grey: Pixels = (np.asarray(picture) >> (_bits_of(picture) - 8)).astype(np.uint8)
    return grey if mode == "L" else np.repeat(grey[:, :, np.newaxis], 3, axis=2)


def _bits_of(picture: Image.Image) -> int:
    """Return the bits of values that Pillow holds in 16: those of 12 in a TIFF are not scaled."""
    if not isinstance(picture, TiffImagePlugin.TiffImageFile):
        return 16
    bits: tuple[int, ...] = picture.tag_v2.get(ExifTags.Base.BitsPerSample, (16,))
    return bits[0]


def _part(
    shape: tuple[int, int],
    read: Callable[[tuple[float, float]], tuple[Pixels, float]],
    choose: Choice,
    turn: Orientation,
) -> Pixels:
    """Return the chosen part of a picture that has the height and width `shape` in its file."""
    height, width = shape[::-1] if turn.is_lying else shape
    (left, top, across, down), size = choose(height, width)
    # The same part as it lies in the file: what is turned is the result, which is smaller.
    left = width - left - across if turn.mirrors_across else left
    top = height - top - down if turn.mirrors_down else top
    box = Box(left, top, across, down)
    if turn.is_lying:
        box, size = Box(top, left, down, across), size[::-1]
    pixels, scale = read((size[0] * shape[0] / box.height, size[1] * shape[1] / box.width))
    pixels = resize(pixels, box.scaled(scale), size)
    pixels = pixels.swapaxes(0, 1) if turn.is_lying else pixels
    return pixels[:: -1 if turn.mirrors_down else 1, :: -1 if turn.mirrors_across else 1]


def _turn_of(encoded: bytes) -> Orientation:
    with Image.open(io.BytesIO(encoded)) as picture:
        if picture.format == "TIFF":  # Pillow turns these itself, as it loads them
            return _AS_IT_LIES
        orientation: object = picture.getexif().get(ExifTags.Base.Orientation)
    return _TURNS.get(orientation, _AS_IT_LIES) if isinstance(orientation, int) else _AS_IT_LIES


def _describe(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    return "nothing" if value is None else type(value).__name__
