"""Where a picture's pixels lie: cut, mirrored or wiped out at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainshed.transforms.batch import get_pictures

if TYPE_CHECKING:
    from trainshed.data.order.randomness import RowRandom
    from trainshed.transforms.batch import Array, Batch


def random_crop_flip(
    batch: Batch,
    *,
    column: str = "image",
    padding: int = 4,
    flip: bool = True,
    rng: RowRandom,
) -> Batch:
    """Cut each picture (H, W) or (H, W, C) at a random place out of itself with a black margin.

    Args:
        batch: columns of equal length.
        column: the column with decoded pictures of one size.
        padding: width of the margin in pixels; the cut moves by at most as much.
        flip: whether every second picture, at random, is mirrored left to right.
        rng: draws one number a row.
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
