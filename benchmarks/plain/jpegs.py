"""Decodes JPEGs to one size with torchvision or with Pillow."""

import io
import time
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image


def decode_with_torchvision(encoded: bytes, size: int) -> object:
    """Return an image (3, size, size) of uint8."""
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2.functional import resize

    pixels = decode_jpeg(
        torch.frombuffer(bytearray(encoded), dtype=torch.uint8), mode=ImageReadMode.RGB
    )
    return resize(pixels, [size, size], antialias=True)


def decode_with_pillow(encoded: bytes, size: int) -> object:
    """Return an image that is decoded at full size and then resized."""
    with Image.open(io.BytesIO(encoded)) as image:
        return image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)


DECODERS: dict[str, Callable[[bytes, int], object]] = {
    "torchvision": decode_with_torchvision,
    "pillow": decode_with_pillow,
}


def main(*, decoder: str, data: str, size: int, rounds: int) -> dict[str, float]:
    """Decode all images `rounds` times; return the CPU milliseconds for one image."""
    torch.set_num_threads(1)
    decode = DECODERS[decoder]
    files = [file.read_bytes() for file in sorted(Path(data).iterdir())]
    decode(files[0], size)  # imports happen here
    started = time.thread_time()
    for _ in range(rounds):
        for encoded in files:
            decode(encoded, size)
    seconds = (time.thread_time() - started) / rounds / len(files)
    return {"milliseconds": 1000 * seconds}
