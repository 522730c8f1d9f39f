"""Random cropping, mirroring and erasing of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainshed.transforms.areas import draw_areas
from trainshed.transforms.batch_checks import as_number, as_range, as_size, get_pictures, get_pixels
from trainshed.transforms.resize import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.data.sampler.randomness import RowRandom
    from trainshed.transforms.batch_checks import Array, Batch


def random_crop_flip(
    batch: Batch,
    *,
    column: str = "image",
    padding: int = 4,
    flip: bool = True,
    rng: RowRandom,
) -> Batch:
    """Crop each picture (H, W) or (H, W, C) at a random offset after padding it with black.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures of one size.
        padding: width of the padding in pixels, the maximum shift.
        flip: whether to mirror half of the pictures, at random, left to right.
        rng: draws one number per row.
    """
    if padding < 0:
        raise ValueError(f"random_crop_flip: padding is {padding}, must be 0 or more pixels")
    pictures = get_pictures(batch, column, "random_crop_flip")
    tops, lefts = rng.integers(0, 2 * padding + 1, (2,)).T
    margins = ((0, 0), (padding, padding), (padding, padding), (0, 0))[: pictures.ndim]
    # windows: (B, 2 * padding + 1, 2 * padding + 1, [C,] H, W), views only
    windows = sliding_window_view(np.pad(pictures, margins), pictures.shape[1:3], axis=(1, 2))
    cut = windows[np.arange(len(pictures)), tops, lefts]
    result: Array = np.ascontiguousarray(np.moveaxis(cut, 1, -1) if pictures.shape[3:] else cut)
    if flip:
        mirrored = rng.integers(0, 2).astype(np.bool_)
        result[mirrored] = result[mirrored][:, :, ::-1]
    return {**batch, column: result}


def random_resized_crop(
    batch: Batch,
    *,
    column: str = "image",
    size: int | Sequence[int],
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3 / 4, 4 / 3),
    rng: RowRandom,
) -> Batch:
    """Cut a random part out of each uint8 picture, and resize it to one size.

    Same distribution as torchvision's RandomResizedCrop, with the same filter and edges.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures, uint8.
        size: height and width of the result in pixels: one number, or two.
        scale: smallest and largest share of the picture's area.
        ratio: smallest and largest width of the part for a height of 1.
        rng: draws the numbers of a row.
    """
    sides = as_size("random_resized_crop", size)
    pictures = get_pixels(batch, column, "random_resized_crop")
    areas = draw_areas("random_resized_crop", scale, ratio, rng)
    result = np.empty((len(pictures), *sides, *pictures.shape[3:]), dtype=np.uint8)
    for row, picture in enumerate(pictures):
        result[row] = resize(picture, areas.box(row, *picture.shape[:2]), sides)
    return {**batch, column: result}


def random_flip(
    batch: Batch,
    *,
    column: str = "image",
    horizontal: float = 0.5,
    vertical: float = 0.0,
    rng: RowRandom,
) -> Batch:
    """Mirror pictures (H, W) or (H, W, C) of any type, left to right and top to bottom.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures.
        horizontal: the share of pictures to mirror left to right.
        vertical: the share of pictures to mirror top to bottom.
        rng: draws two numbers per row.
    """
    shares = [
        as_number("random_flip", "horizontal", horizontal, 0, 1),
        as_number("random_flip", "vertical", vertical, 0, 1),
    ]
    result = get_pictures(batch, column, "random_flip").copy()
    across, down = (rng.random((2,)) < shares).T
    result[across] = result[across][:, :, ::-1]
    result[down] = result[down][:, ::-1]
    return {**batch, column: result}


def random_erasing(
    batch: Batch,
    *,
    column: str = "image",
    probability: float = 0.5,
    scale: Sequence[float] = (0.02, 0.33),
    ratio: Sequence[float] = (0.3, 3.3),
    value: float = 0.0,
    rng: RowRandom,
) -> Batch:
    """Erase a random rectangle in some pictures (H, W) or (H, W, C) of any type.

    As torchvision's RandomErasing; if no rectangle fits, the picture is not changed.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures.
        probability: the share of pictures with a rectangle.
        scale: smallest and largest share of the picture's area.
        ratio: smallest and largest height of the rectangle for a width of 1.
        value: fills the rectangle; after `normalize` 0 is the mean.
        rng: draws the numbers of a row.
    """
    name = "random_erasing"
    share = as_number(name, "probability", probability, 0, 1)
    result = get_pictures(batch, column, name).copy()
    is_bytes = result.dtype == np.uint8
    fill = as_number(name, "value", value, *((0, 255) if is_bytes else (-np.inf, np.inf)))
    # torchvision inverts the ratio of an erasure relative to that of a crop.
    low, high = as_range(name, "ratio", ratio)
    areas = draw_areas(name, scale, (1 / high, 1 / low), rng)
    for row in np.flatnonzero(rng.random() < share):
        box = areas.box_inside(int(row), *result.shape[1:3])
        if box is not None:
            left, top, width, height = map(int, box)
            result[row, top : top + height, left : left + width] = fill
    return {**batch, column: result}
