"""Decodes JPEGs to one size with `trainshed.transforms.decode_image`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.plain.program import start
from trainshed.transforms import decode_image


def main(*, data: str, size: int, rounds: int) -> dict[str, float]:
    """Decode all pictures some times, and write the milliseconds of processor time for one."""
    files = [file.read_bytes() for file in sorted(Path(data).iterdir())]
    column = np.empty(len(files), dtype=object)
    column[:] = files
    decode_image({"image": column[:1]}, size=size)
    began = time.thread_time()
    for _ in range(rounds):
        decode_image({"image": column}, size=size)
    seconds = (time.thread_time() - began) / rounds / len(files)
    return {"milliseconds": 1000 * seconds}


if __name__ == "__main__":
    start(main)
