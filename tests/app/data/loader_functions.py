"""What processes that read for a worker are given to call: without Ray, so that they start soon."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainshed.data.sampler.randomness import RowRandom

Batch = dict[str, NDArray[np.generic]]


def doubled(batch: Batch) -> Batch:
    """Return twice x, in place of itself."""
    return {**batch, "x": batch["x"].astype(np.float32) * 2}


def noise(batch: Batch, *, rng: RowRandom) -> Batch:
    """Add random numbers."""
    return {**batch, "draw": rng.integers(0, 1000).astype(np.float32)}


def whose(batch: Batch) -> Batch:
    """Add the process that it runs in."""
    return {**batch, "process": np.full(len(batch["id"]), os.getpid())}


def modules(batch: Batch) -> Batch:
    """Say whether Ray was imported."""
    return {**batch, "has_ray": np.full(len(batch["id"]), "ray" in sys.modules)}


def worded(batch: Batch) -> Batch:
    """Add columns without numbers."""
    days = np.array(["2026-01-01"] * len(batch["id"]), dtype="datetime64[D]")
    return {**batch, "day": days, "word": np.array([f"row {row}" for row in batch["id"]], object)}


def broken(batch: Batch, *, at: int) -> Batch:
    """Raise where a row has the id `at`."""
    if at in batch["id"]:
        raise ValueError(f"row {at} is bad")
    return batch


def leaving(batch: Batch, *, at: int) -> Batch:
    """End as a script does where a row has the id `at`."""
    if at in batch["id"]:
        raise SystemExit(3)
    return batch


def killed(batch: Batch, *, at: int) -> Batch:
    """Be killed where a row has the id `at`, as by a kernel without memory."""
    if at in batch["id"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch


def slow(batch: Batch, *, seconds: float, note: str = "") -> Batch:
    """Take a while, and leave a file of the process's number in a folder."""
    if note:
        (Path(note) / str(os.getpid())).touch()
    time.sleep(seconds)
    return batch
