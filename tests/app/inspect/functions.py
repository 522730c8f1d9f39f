"""Transforms of tests, and what they call for a fragment."""

import os
import signal

import numpy as np

from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.column_arrays import Columns


def keep_even(batch: Columns) -> Columns:
    """Leave rows with an odd id out."""
    kept = batch["id"] % 2 == 0
    return {name: array[kept] for name, array in batch.items()}


def keep_late(batch: Columns) -> Columns:
    """Leave the first 500 rows out."""
    ids = np.asarray(batch["id"], dtype=np.int64)
    return {name: array[ids >= 500] for name, array in batch.items()}


def keep_none(batch: Columns) -> Columns:
    """Leave all rows out."""
    return {name: array[:0] for name, array in batch.items()}


def as_pictures(batch: Columns) -> Columns:
    """Make float16 pictures (rows, 2, 3) of the id."""
    ids = np.asarray(batch["id"], dtype=np.float16)
    return {"id": batch["id"], "picture": np.broadcast_to(ids[:, None, None], (len(ids), 2, 3))}


def as_lists(batch: Columns) -> Columns:
    """Make as many numbers of each row as its id modulo 3 says."""
    lists = np.empty(len(batch["id"]), dtype=object)
    lists[:] = [np.arange(number % 3, dtype=np.float32) for number in batch["id"].tolist()]
    return {"id": batch["id"], "tokens": lists}


def grow_late(batch: Columns) -> Columns:
    """Make rows of another shape where nobody looked."""
    width = 2 + int(400 < batch["id"].max() < 600)
    return {"x": np.zeros((len(batch["id"]), width), dtype=np.float32)}


def fail_late(batch: Columns) -> Columns:
    """Raise where nobody looked."""
    if 400 < batch["id"].max() < 600:
        raise ValueError("no more")
    return batch


def raise_at_two(batch: Columns) -> Columns:
    """Raise where a row has the id 2."""
    if 2 in batch["id"]:
        raise ValueError("two")
    return batch


def next_label(batch: Columns) -> Columns:
    """Move each label to the next number."""
    return {**batch, "label": np.asarray(batch["label"], dtype=np.int64) + 1}


def at_most_ten(batch: Columns) -> Columns:
    """Raise where more than ten rows come at once."""
    if len(batch["text"]) > 10:
        raise ValueError("too many at once")
    return batch


def joined(batch: Columns) -> Columns:
    """Make one row of all that come at once: how many they are."""
    return {"rows": np.asarray([len(batch["text"])])}


def repeat(batch: Columns) -> Columns:
    """Make three rows of each."""
    return {name: array.repeat(3, axis=0) for name, array in batch.items()}


def as_complex(batch: Columns) -> Columns:
    """Return what no file holds."""
    return {"z": np.asarray(batch["id"], dtype=np.complex128)}


def raise_at_once(batch: Columns) -> Columns:
    """Raise."""
    raise ValueError("at once")


def name_of(fragment: Fragment) -> tuple[str, int]:
    """Return a fragment's path and the process that was asked."""
    return fragment.path, os.getpid()


def die(fragment: Fragment) -> None:
    """End the process, as the kernel does where memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)
