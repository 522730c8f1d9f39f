"""Measures `torch.save` of a model of each size."""

import time
from pathlib import Path

import torch

from benchmarks.plain.ballast import Ballast
from benchmarks.plain.program import start


def main(*, storage: str, count: int, pause: float, megabytes: list[int]) -> dict[str, list[float]]:
    """Save several times and write the seconds of each."""
    seconds: dict[str, list[float]] = {}
    for size in megabytes:
        state = Ballast(size).state_dict()
        for number in range(count):
            began = time.perf_counter()
            torch.save(state, Path(storage) / f"{size}-{number}.pt")
            seconds.setdefault(str(size), []).append(time.perf_counter() - began)
            time.sleep(pause)
    return seconds


if __name__ == "__main__":
    start(main)
