"""Random changes of a picture's colors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from trainshed.transforms.batch_checks import GREY, as_number, get_pixels

if TYPE_CHECKING:
    from trainshed.data.sampler.randomness import RowRandom
    from trainshed.transforms.batch_checks import Batch, Pixels

# Weights of red, green and blue in a gray value.
_WEIGHTS = np.array(GREY) / 65536


def color_jitter(
    batch: Batch,
    *,
    column: str = "image",
    brightness: float = 0.0,
    contrast: float = 0.0,
    saturation: float = 0.0,
    hue: float = 0.0,
    rng: RowRandom,
) -> Batch:
    """Change brightness, contrast, saturation and hue of each uint8 picture, in this order.

    Each factor is uniform in [1 - x, 1 + x], and at least 0. This is torchvision's ColorJitter
    with a fixed order.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures, uint8.
        brightness: 0.4 makes a picture darker or brighter by up to 40 %.
        contrast: the same for the distance from the picture's mean gray.
        saturation: the same for the distance of each pixel from its gray value.
        hue: maximum rotation of the color circle; 0.5 is half of it.
        rng: draws four numbers per row.
    """
    name = "color_jitter"
    given = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    spreads = [as_number(name, option, value, 0, np.inf) for option, value in given.items()]
    turn = as_number(name, "hue", hue, 0, 0.5)
    pictures = get_pixels(batch, column, name)
    if not pictures.shape[3:] and (spreads[2] or turn):
        option, value = ("saturation", saturation) if spreads[2] else ("hue", hue)
        raise ValueError(
            f'{name}: {option} is {value}, must be 0: column "{column}" holds grey pictures'
        )
    drawn = rng.random((4,))
    low = np.maximum(1 - np.array(spreads), 0)
    factors = (low + drawn[:, :3] * (1 + np.array(spreads) - low)).tolist()
    turns = [round(x) for x in (2 * drawn[:, 3] - 1) * turn * 255]
    result = np.empty_like(pictures)
    # One picture at a time stays in the CPU's cache between the steps.
    for row, picture in enumerate(pictures):
        changed = _blended(picture, *factors[row])
        result[row] = _turned(changed, turns[row]) if turns[row] else changed
    return {**batch, column: result}


def random_gray(
    batch: Batch, *, column: str = "image", probability: float = 0.1, rng: RowRandom
) -> Batch:
    """Turn some uint8 pictures (H, W, 3) gray; they keep three channels.

    Args:
        batch: columns of equal length.
        column: the column with decoded color pictures, uint8.
        probability: the share of pictures that turn gray.
        rng: draws one number per row.
    """
    share = as_number("random_gray", "probability", probability, 0, 1)
    pictures = get_pixels(batch, column, "random_gray")
    if not pictures.shape[3:]:
        raise ValueError(f'random_gray: column "{column}" holds grey pictures; leave it out')
    result = pictures.copy()
    for row in np.flatnonzero(rng.random() < share):
        red_green_blue = pictures[row].astype(np.uint32) * np.array(GREY, dtype=np.uint32)
        result[row] = ((red_green_blue.sum(axis=-1, keepdims=True) + 0x8000) >> 16).astype(np.uint8)
    return {**batch, column: result}


def _blended(picture: Pixels, brightness: float, contrast: float, saturation: float) -> Pixels:
    """Return a picture (H, W) or (H, W, 3) with the three changed; 1 changes nothing."""
    values = picture.astype(np.float32)
    if brightness != 1:
        values *= np.float32(brightness)
        np.clip(values, 0, 255, out=values)
    if contrast != 1:
        # Row by row: NumPy is slow when it sums over two axes at once.
        of_channels = values.sum(axis=0).mean(axis=0, dtype=np.float64) / len(values)
        mean = float(of_channels @ _WEIGHTS if picture.shape[2:] else of_channels)
        values *= np.float32(contrast)
        values += np.float32(mean * (1 - contrast))
        np.clip(values, 0, 255, out=values)
    if saturation != 1:
        grey = values @ (_WEIGHTS * (1 - saturation)).astype(np.float32)
        values *= np.float32(saturation)
        for channel in np.moveaxis(values, -1, 0):
            np.add(channel, grey, out=channel)
        np.clip(values, 0, 255, out=values)
    return np.rint(values, out=values).astype(np.uint8)


def _turned(picture: Pixels, steps: int) -> Pixels:
    """Return a picture (H, W, 3) with its hue moved by steps of a circle of 256, as in Pillow."""
    hue, saturation, value = Image.fromarray(picture).convert("HSV").split()
    moved = (np.asarray(hue).astype(np.int64) + steps).astype(np.uint8)
    turned = Image.merge("HSV", (Image.fromarray(moved), saturation, value)).convert("RGB")
    return np.asarray(turned)
