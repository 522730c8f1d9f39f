"""Decodes pictures: JPEG with libjpeg-turbo, everything else with Pillow.

Color profiles are ignored. The EXIF orientation is applied only on request.
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

# What Pillow raises for bytes that are not a picture, or only the beginning of one.
_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
)
# Pillow's modes with 32 bits per value, integers and floats.
_WIDE = ("I", "F")
_JPEG = b"\xff\xd8\xff"
# A JPEG is decoded at half its size or less if this many times the wanted pixels remain along
# each side: scaling the rest then makes hardly any difference (as Pillow's reducing_gap).
_ROOM = 2
# Decoding at a size between a half and the whole is slower than decoding the whole.
_EIGHTHS = (1, 2, 3, 4)


class Orientation(NamedTuple):
    """An orientation: transpose the axes first, then mirror."""

    is_lying: bool
    mirrors_across: bool
    mirrors_down: bool


_AS_IT_LIES = Orientation(is_lying=False, mirrors_across=False, mirrors_down=False)
# The EXIF values of an orientation.
_TURNS = {
    n: Orientation(n in {5, 6, 7, 8}, n in {2, 3, 6, 7}, n in {3, 4, 7, 8}) for n in range(1, 9)
}

# From a picture's height and width to the wanted part, and the height and width of the result.
Choice = Callable[[int, int], tuple[Box, tuple[int, int]]]


def decode(value: object, mode: str, choose: Choice, *, upright: bool) -> Pixels:
    """Return the chosen part of an encoded picture: (H, W) for mode L, (H, W, 3) for RGB.

    Args:
        value: the encoded bytes, or a struct with them in `bytes`.
        mode: RGB or L.
        choose: returns the wanted part and its new size.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: if it cannot be read.
    """
    encoded = value.get("bytes") if isinstance(value, Mapping) else value
    try:
        if not isinstance(encoded, (bytes, bytearray, memoryview)):
            raise ValueError("no encoded bytes")
        return _decode(bytes(encoded), mode, choose, upright)
    except _UNREADABLE as error:
        raise ValueError(f"not a readable picture ({_describe(encoded)}): {error}") from error


def read_jpeg(encoded: bytes, mode: str, least: tuple[float, float]) -> tuple[Pixels, float]:
    """Return a JPEG's pixels, (H, W) for mode L, (H, W, 3) for RGB, and their scale.

    Args:
        encoded: the file.
        mode: RGB or L.
        least: minimum height and width of the whole picture after scaling. Decoding scales only if
            the picture stays larger by `_ROOM`.

    Raises:
        ValueError: if libjpeg-turbo alone cannot decode it.
        KeyError: if simplejpeg does not know the subsampling.
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
        # Pillow decodes what the library refuses, or reports the error.
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
    # Pillow's conversion to 8 bits turns all values above 255 white.
    grey: Pixels = (np.asarray(picture) >> (_bits_of(picture) - 8)).astype(np.uint8)
    return grey if mode == "L" else np.repeat(grey[:, :, np.newaxis], 3, axis=2)


def _bits_of(picture: Image.Image) -> int:
    """Return the bit depth of 16-bit values of Pillow: 12 bits of a TIFF are not scaled."""
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
    """Return the chosen part of a picture whose stored height and width are `shape`."""
    height, width = shape[::-1] if turn.is_lying else shape
    (left, top, across, down), size = choose(height, width)
    # Cut in stored coordinates and rotate the result, which is smaller.
    left = width - left - across if turn.mirrors_across else left
    top = height - top - down if turn.mirrors_down else top
    box = Box(left, top, across, down)
    if turn.is_lying:
        box, size = Box(top, left, down, across), size[::-1]
    pixels, scale = read((size[0] * shape[0] / box.height, size[1] * shape[1] / box.width))
    pixels = resize(pixels, Box(*(scale * side for side in box)), size)
    pixels = pixels.swapaxes(0, 1) if turn.is_lying else pixels
    return pixels[:: -1 if turn.mirrors_down else 1, :: -1 if turn.mirrors_across else 1]


def _turn_of(encoded: bytes) -> Orientation:
    with Image.open(io.BytesIO(encoded)) as picture:
        if picture.format == "TIFF":  # Pillow rotates these itself when it loads them
            return _AS_IT_LIES
        orientation: object = picture.getexif().get(ExifTags.Base.Orientation)
    return _TURNS.get(orientation, _AS_IT_LIES) if isinstance(orientation, int) else _AS_IT_LIES


def _describe(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    return "nothing" if value is None else type(value).__name__
