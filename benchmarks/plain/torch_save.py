"""Measures `torch.save` of a model of each size."""

import time
from pathlib import Path

import torch

from benchmarks.plain.ballast import Ballast


def main(*, storage: str, count: int, pause: float, megabytes: list[int]) -> dict[str, list[float]]:
    """Save `count` times; return the seconds of each call by size."""
    seconds: dict[str, list[float]] = {}
    for size in megabytes:
        state = Ballast(size).state_dict()
        for number in range(count):
            started = time.perf_counter()
            torch.save(state, Path(storage) / f"{size}-{number}.pt")
            seconds.setdefault(str(size), []).append(time.perf_counter() - started)
            time.sleep(pause)
    return seconds
