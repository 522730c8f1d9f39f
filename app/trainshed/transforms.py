"""Functions for `transforms` and `augment` of a TrainingRun: numpy columns in, numpy columns out.

Pure: the same batch gives the same result, and the batch that came in stays as it was.
What is random draws from `rng`, whose numbers belong to rows. No torch, no Ray, no I/O.
Shape letters: B rows of a batch, H and W height and width, C channels.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from trainshed.data.order.randomness import RowRandom

Array = NDArray[np.generic]
Batch = dict[str, Array]

# What Pillow raises for bytes that are no picture, or only the beginning of one.
_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
)


def decode_image(
    batch: Batch, *, column: str = "image", size: int, mode: Literal["RGB", "L"] = "RGB"
) -> Batch:
    """Replace encoded pictures (PNG, JPEG, ...) by bytes (B, size, size) or (B, size, size, 3).

    A row holds the encoded bytes, or a struct with them under `bytes`. A picture of
    another size is scaled to the square without keeping its proportions.

    Args:
        batch: columns of equal length.
        column: the column with the pictures.
        size: height and width of the result in pixels.
        mode: `RGB`, or `L` for grey without a channel axis.

    Raises:
        ValueError: naming the row's position in the batch when a picture cannot be read.
    """
    if size < 1:
        raise ValueError(f"decode_image: size is {size}, must be at least 1 pixel")
    if mode not in ("RGB", "L"):
        raise ValueError(f'decode_image: mode is "{mode}", known are RGB and L')
    encoded = _column(batch, column, "decode_image")
    shape = (len(encoded), size, size) + ((3,) if mode == "RGB" else ())
    pictures = np.empty(shape, dtype=np.uint8)
    for row, value in enumerate(encoded):
        try:
            pictures[row] = _decode(value, size, mode)
        except _UNREADABLE as error:
            raise ValueError(
                f'decode_image: row {row} of the batch, column "{column}": not a readable '
                f"picture ({_describe(value)}): {error}"
            ) from error
    return {**batch, column: pictures}


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
    pictures = _column(batch, column, "random_crop_flip")
    if pictures.ndim not in (3, 4):
        raise ValueError(
            f'random_crop_flip: column "{column}" has the shape {pictures.shape}, pictures have '
            "(rows, height, width) or (rows, height, width, channels); decode them first"
        )
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


def normalize(
    batch: Batch,
    *,
    column: str,
    mean: float | Sequence[float],
    std: float | Sequence[float],
) -> Batch:
    """Replace a column by (column - mean) / std as float32.

    Args:
        batch: columns of equal length.
        column: the column to scale.
        mean: one number, or one for each entry of the column's last axis.
        std: like `mean`, larger than 0.
    """
    values = _column(batch, column, "normalize")
    if not np.issubdtype(values.dtype, np.number):
        raise ValueError(f'normalize: column "{column}" holds {values.dtype}, must hold numbers')
    means, stds = np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)
    if not (stds > 0).all():
        raise ValueError(f"normalize: std is {std}, must be larger than 0")
    for name, numbers in (("mean", means), ("std", stds)):
        if numbers.ndim > 1 or (numbers.ndim == 1 and numbers.shape != values.shape[-1:]):
            raise ValueError(
                f'normalize: {name} has {numbers.size} numbers, column "{column}" of shape '
                f"{values.shape} takes one or {values.shape[-1]}"
            )
    return {**batch, column: (values.astype(np.float32) - means) / stds}


def rename(batch: Batch, *, columns: Mapping[str, str]) -> Batch:
    """Give columns the names a program looks for, e.g. `{img: image}`."""
    for old, new in columns.items():
        _column(batch, old, "rename")
        if new in batch and new not in columns:
            raise ValueError(f'rename: "{old}" cannot become "{new}", that column is there already')
    return {columns.get(name, name): values for name, values in batch.items()}


def _decode(value: object, size: int, mode: str) -> NDArray[np.uint8]:
    encoded = value.get("bytes") if isinstance(value, Mapping) else value
    if not isinstance(encoded, (bytes, bytearray, memoryview)):
        raise ValueError("no encoded bytes")
    with Image.open(io.BytesIO(encoded)) as picture:
        converted = picture.convert(mode)
    if converted.size != (size, size):
        converted = converted.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(converted)


def _describe(value: object) -> str:
    content = value.get("bytes") if isinstance(value, Mapping) else value
    if isinstance(content, (bytes, bytearray, memoryview)):
        return f"{len(content)} bytes"
    return "nothing" if content is None else type(content).__name__


def _column(batch: Batch, name: str, function: str) -> Array:
    if name not in batch:
        raise ValueError(f'{function}: there is no column "{name}" among {", ".join(batch)}')
    return batch[name]
