"""Decodes encoded pictures to one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from trainshed.transforms.areas import draw_areas
from trainshed.transforms.batch_checks import as_flag, as_number, as_one_of, as_size, get_column
from trainshed.transforms.pixels import decode
from trainshed.transforms.resize import Box

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainshed.data.sampler.randomness import RowRandom
    from trainshed.transforms.batch_checks import Batch
    from trainshed.transforms.pixels import Choice

Mode = Literal["RGB", "L"]
_MODES = ("RGB", "L")
_HOWS = ("squash", "crop", "pad")


def decode_image(
    batch: Batch,
    *,
    column: str = "image",
    size: int | Sequence[int],
    mode: Mode = "RGB",
    resize: Literal["squash", "crop", "pad"] = "squash",
    crop_share: float = 1.0,
    upright: bool = False,
) -> Batch:
    """Decode pictures (PNG, JPEG, ...) to uint8 (B, H, W) or (B, H, W, 3).

    A row holds the encoded bytes, or a struct with them in `bytes`.

    Args:
        batch: columns of equal length.
        column: the column with the pictures.
        size: height and width of the result in pixels: one number, or two.
        mode: `RGB`, or `L` for gray without a channel axis.
        resize: `squash` changes the aspect ratio, `crop` cuts both ends of the longer side, `pad`
            adds
            black to both ends of the shorter one.
        crop_share: with `crop`, the share of height and width that is kept in the center:
            0.875 gives 224 of 256 pixels.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: with the row's position in the batch, if a picture cannot be read.
    """
    height, width = as_size("decode_image", size)
    as_one_of("decode_image", "mode", mode, _MODES)
    as_one_of("decode_image", "resize", resize, _HOWS)
    share = as_number("decode_image", "crop_share", crop_share, 0.01, 1)
    if share < 1 and resize != "crop":
        raise ValueError(
            f'decode_image: crop_share is {share:g}, and resize "{resize}" cuts nothing off; '
            "leave it out, or say resize: crop"
        )
    turns = as_flag("decode_image", "upright", upright)
    choose = _choice(resize, (height, width), share)
    pictures = _Pictures("decode_image", column, (height, width), mode, turns)
    return pictures.decoded(batch, lambda _: choose)


def decode_random_resized_crop(
    batch: Batch,
    *,
    column: str = "image",
    size: int | Sequence[int],
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3 / 4, 4 / 3),
    mode: Mode = "RGB",
    upright: bool = False,
    rng: RowRandom,
) -> Batch:
    """Decode a random part of each picture to one size, another part in each epoch.

    The same as `random_resized_crop` on decoded pictures, but from the full resolution.

    Args:
        batch: columns of equal length.
        column: the column with the encoded pictures.
        size: height and width of the result in pixels: one number, or two.
        scale: smallest and largest share of the picture's area.
        ratio: smallest and largest width of the part for a height of 1.
        mode: `RGB`, or `L` for gray without a channel axis.
        upright: whether to apply the EXIF orientation.
        rng: draws the numbers of a row.

    Raises:
        ValueError: with the row's position in the batch, if a picture cannot be read.
    """
    name = "decode_random_resized_crop"
    sides = as_size(name, size)
    as_one_of(name, "mode", mode, _MODES)
    areas = draw_areas(name, scale, ratio, rng)

    pictures = _Pictures(name, column, sides, mode, as_flag(name, "upright", upright))
    return pictures.decoded(batch, lambda row: lambda h, w: (areas.box(row, h, w), sides))


def _choice(how: str, size: tuple[int, int], share: float) -> Choice:
    """Return the part to cut and its new size, for a picture of any height and width."""
    to_height, to_width = size

    def squash(height: int, width: int) -> tuple[Box, tuple[int, int]]:
        return Box(0, 0, width, height), size

    def crop(height: int, width: int) -> tuple[Box, tuple[int, int]]:
        pixels = share * min(height / to_height, width / to_width)
        across, down = pixels * to_width, pixels * to_height
        return Box((width - across) / 2, (height - down) / 2, across, down), size

    def pad(height: int, width: int) -> tuple[Box, tuple[int, int]]:
        pixels = max(height / to_height, width / to_width)
        inner = max(1, round(height / pixels)), max(1, round(width / pixels))
        return Box(0, 0, width, height), inner

    return {"squash": squash, "crop": crop, "pad": pad}[how]


class _Pictures(NamedTuple):
    """The output of a decoding function: pictures of one size (height, width) and mode."""

    function: str
    column: str
    size: tuple[int, int]
    mode: Mode
    upright: bool

    def decoded(self, batch: Batch, choice_of: Callable[[int], Choice]) -> Batch:
        """Return the batch with the column decoded; a smaller picture is centered on black.

        Args:
            batch: with the encoded column.
            choice_of: returns which part of a row's picture to take, and its new size.
        """
        encoded = get_column(batch, self.column, self.function)
        colours = (3,) if self.mode == "RGB" else ()
        pictures = np.zeros((len(encoded), *self.size, *colours), dtype=np.uint8)
        for row, value in enumerate(encoded):
            try:
                pixels = decode(value, self.mode, choice_of(row), upright=self.upright)
            except ValueError as error:
                raise ValueError(
                    f'{self.function}: row {row} of the batch, column "{self.column}": {error}'
                ) from error
            (tall, wide), (height, width) = self.size, pixels.shape[:2]
            top, left = (tall - height) // 2, (wide - width) // 2
            pictures[row, top : top + height, left : left + width] = pixels
        return {**batch, self.column: pictures}
