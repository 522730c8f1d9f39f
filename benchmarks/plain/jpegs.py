"""JPEGs to pictures of one size, as torchvision or Pillow alone have it."""

import argparse
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image


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


def main() -> None:
    """Decode all pictures some times, and write the milliseconds of processor time for one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", choices=READERS, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    read = READERS[options.reader]
    files = [file.read_bytes() for file in sorted(options.data.iterdir())]
    read(files[0], options.size)  # what is imported and looked up once
    began = time.thread_time()
    for _ in range(options.rounds):
        for encoded in files:
            read(encoded, options.size)
    seconds = (time.thread_time() - began) / options.rounds / len(files)
    options.out.write_text(json.dumps({"milliseconds": 1000 * seconds}), encoding="utf-8")


if __name__ == "__main__":
    main()
