"""`torch.save` alone: the seconds that writing a state to storage takes."""

import argparse
import json
import time
from pathlib import Path

import torch

from benchmarks.plain.ballast import Ballast


def main() -> None:
    """Save several times and write the seconds of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True)
    parser.add_argument("--megabytes", type=int, nargs="+", required=True)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    for megabytes in options.megabytes:
        state = Ballast(megabytes).state_dict()
        for number in range(options.count):
            began = time.perf_counter()
            torch.save(state, Path(options.storage) / f"{megabytes}-{number}.pt")
            seconds.setdefault(str(megabytes), []).append(time.perf_counter() - began)
            time.sleep(options.pause)
    Path(options.out).write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
