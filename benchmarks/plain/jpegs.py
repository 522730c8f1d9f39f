"""Decodes JPEGs to one size with torchvision or with Pillow."""

import io
import time
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image

from benchmarks.plain.program import start


def by_torchvision(encoded: bytes, size: int) -> object:
    """Return a picture (3, size, size) of uint8."""
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2.functional import resize

    pixels = decode_jpeg(
        torch.frombuffer(bytearray(encoded), dtype=torch.uint8), mode=ImageReadMode.RGB
    )
    return resize(pixels, [size, size], antialias=True)


def by_pillow(encoded: bytes, size: int) -> object:
    """Return a picture, decoded as a whole."""
    with Image.open(io.BytesIO(encoded)) as picture:
        return picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)


READERS: dict[str, Callable[[bytes, int], object]] = {
    "torchvision": by_torchvision,
    "pillow": by_pillow,
}


def main(*, reader: str, data: str, size: int, rounds: int) -> dict[str, float]:
    """Decode all pictures some times, and write the milliseconds of processor time for one."""
    torch.set_num_threads(1)
    read = READERS[reader]
    files = [file.read_bytes() for file in sorted(Path(data).iterdir())]
    read(files[0], size)  # what is imported and looked up once
    began = time.thread_time()
    for _ in range(rounds):
        for encoded in files:
            read(encoded, size)
    seconds = (time.thread_time() - began) / rounds / len(files)
    return {"milliseconds": 1000 * seconds}


if __name__ == "__main__":
    start(main)
