"""Data sets that tests and benchmarks train on, made from a seed."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture (H, W) or (H, W, 3) as the bytes of a PNG file."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG")
    return buffer.getvalue()


def encode_jpeg(picture: NDArray[np.uint8], quality: int = 90, **options: object) -> bytes:
    """Return a picture (H, W) or (H, W, 3) as the bytes of a JPEG file; options are Pillow's."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=quality, **options)
    return buffer.getvalue()


def make_photo(height: int, width: int, *, shapes: int = 30, seed: int = 0) -> NDArray[np.uint8]:
    """Return a picture (height, width, 3) that is like a photograph to a codec.

    Smooth gradients, ellipses and rectangles of one colour before them, coarse and fine noise.
    """
    generator = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:height, 0:width] / max(height, width)
    waves = generator.uniform(1, 6, (2, 3))
    across = xs[..., None] * waves[0] + ys[..., None] * waves[1]
    picture: NDArray[np.float64] = 128 + 100 * np.sin(across + generator.uniform(0, 6, 3))
    for number in range(shapes):
        (top, left), (tall, wide) = generator.uniform(0, 1, 2), generator.uniform(0.01, 0.15, 2)
        down, right = (ys - top) / tall, (xs - left) / wide
        inside = down**2 + right**2 < 1 if number % 2 else np.maximum(abs(down), abs(right)) < 1
        picture[inside] = generator.uniform(0, 255, 3)
    grains = generator.normal(0, 12, (-(-height // 4), -(-width // 4), 3))
    picture += grains.repeat(4, axis=0).repeat(4, axis=1)[:height, :width]
    picture += generator.normal(0, 5, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def make_pictures(
    rows: int, *, size: int = 32, classes: int = 10, seed: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pictures (rows, size, size, 3) and labels (rows,) that a small model can learn.

    A class is a direction and a width of coloured stripes; phase, brightness and
    noise differ from picture to picture.
    """
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    angles = np.pi * np.arange(classes) / classes
    colours = np.random.default_rng(classes).uniform(0.3, 1.0, (classes, 3))
    ys, xs = np.mgrid[0:size, 0:size] / size
    # waves: (classes, size, size), how far along its stripes a pixel lies
    along = np.cos(angles)[:, None, None] * xs + np.sin(angles)[:, None, None] * ys
    waves = along * (2 + np.arange(classes) % 3)[:, None, None]
    phases = generator.random((rows, 1, 1))
    stripes = (
        np.sin(2 * np.pi * (waves[labels] + phases))[..., None] * colours[labels][:, None, None]
    )
    noise = generator.normal(0, 0.3, (rows, size, size, 3))
    bright = generator.uniform(0.7, 1.0, (rows, 1, 1, 1))
    return np.clip((stripes * bright + noise) * 60 + 128, 0, 255).astype(np.uint8), labels


def write_pictures(  # what a benchmark varies, it says by name
    folder: Path,
    *,
    rows: int,
    files: int = 3,
    size: int = 32,
    classes: int = 10,
    seed: int = 0,
    encoded: bool = True,
) -> Path:
    """Write `part-<i>.parquet` with columns `image` and `label`; return the folder.

    `encoded`: PNG bytes; otherwise the raw pixels of a picture as one list of uint8.
    """
    pictures, labels = make_pictures(rows, size=size, classes=classes, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number, share in enumerate(np.array_split(np.arange(rows), files)):
        image = (
            pa.array([encode_png(picture) for picture in pictures[share]], pa.binary())
            if encoded
            else pa.FixedSizeListArray.from_arrays(
                pa.array(pictures[share].reshape(-1)), size * size * 3
            )
        )
        table = pa.table({"image": image, "label": pa.array(labels[share])})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder
