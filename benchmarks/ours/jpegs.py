"""JPEGs to pictures of one size by our `decode_image`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from trainshed.transforms import decode_image


def main() -> None:
    """Decode all pictures some times, and write the milliseconds of processor time for one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    files = [file.read_bytes() for file in sorted(options.data.iterdir())]
    column = np.empty(len(files), dtype=object)
    column[:] = files
    decode_image({"image": column[:1]}, size=options.size)
    began = time.thread_time()
    for _ in range(options.rounds):
        decode_image({"image": column}, size=options.size)
    seconds = (time.thread_time() - began) / options.rounds / len(files)
    options.out.write_text(json.dumps({"milliseconds": 1000 * seconds}), encoding="utf-8")


if __name__ == "__main__":
    main()
