"""Decodes JPEGs to one size with `trainshed.transforms.decode_image`."""

import time
from pathlib import Path

import numpy as np

from trainshed.transforms import decode_image


def main(*, data: str, size: int, rounds: int) -> dict[str, float]:
    """Decode all images `rounds` times; return the CPU milliseconds for one image."""
    files = [file.read_bytes() for file in sorted(Path(data).iterdir())]
    column = np.empty(len(files), dtype=object)
    column[:] = files
    decode_image({"image": column[:1]}, size=size)  # imports happen here
    started = time.thread_time()
    for _ in range(rounds):
        decode_image({"image": column}, size=size)
    seconds = (time.thread_time() - started) / rounds / len(files)
    return {"milliseconds": 1000 * seconds}
