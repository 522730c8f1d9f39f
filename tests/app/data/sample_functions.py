"""Functions that the TrainingRuns of these tests name."""

import errno
import io
import operator
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import ray.data
from numpy.typing import NDArray
from PIL import Image
from ray.data import Dataset

from trainshed.data.sampler.randomness import RowRandom

# Whatever the columns hold, these functions treat it as numbers.
Numbers = NDArray[np.float32]
Batch = dict[str, Numbers]


def doubled(batch: Batch, *, column: str = "x", why: str = "") -> Batch:
    """Return the batch with one column doubled, whatever the reason."""
    return {**batch, column: batch[column] * 2}


def noise(batch: Batch, *, rng: RowRandom) -> Batch:
    """Add random numbers, in place."""
    batch["x"] += rng.random()[:, None].astype(np.float32)
    return {**batch, "draw": rng.integers(0, 1000).astype(np.float32)}


def odd_rows(batch: Batch) -> Batch:
    """Return the rows with an odd id."""
    kept = batch["id"] % 2 == 1
    return {name: array[kept] for name, array in batch.items()}


def gapped(batch: Batch, *, at: int) -> dict[str, NDArray[np.generic]]:
    """Copy the ids with a gap at one, as where() of pandas does: floats where the gap is alone."""
    ids = batch["id"]
    return {**batch, "v": np.where(ids == at, np.nan, ids) if at in ids else ids}


def slow(batch: Batch, *, seconds: float) -> Batch:
    """Take a while."""
    time.sleep(seconds)
    return batch


def gated(batch: Batch, *, at: int, gate: str) -> Batch:
    """Let rows from the id `at` on through as soon as a file is there."""
    while batch["id"][-1] >= at and not Path(gate).exists():
        time.sleep(0.05)
    return batch


def announced(batch: Batch, *, row: int, folder: str) -> Batch:
    """Note by one more file, named by its number from 1 on, each time that a row is read."""
    if row in batch["id"]:
        noted = sum(1 for _ in Path(folder).iterdir())
        (Path(folder) / str(noted + 1)).touch()
    return batch


def connected() -> sqlite3.Connection:
    """Open the database that the environment names."""
    return sqlite3.connect(os.environ["TRAINSHED_TEST_DATABASE"])


def connected_in_time() -> sqlite3.Connection:
    """Open it to be read in shards, and wait for no lock; some calls, counted from 1, are refused.

    A file beside the database has a byte for each call, and another one the calls to refuse.
    """
    path = Path(os.environ["TRAINSHED_TEST_DATABASE"])
    with path.with_suffix(".calls").open("ab") as calls:
        calls.write(b".")
        calls.flush()
        number = calls.tell()
    if str(number) in path.with_suffix(".refused").read_text("utf-8").split():
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    opened = sqlite3.connect(path, timeout=0)
    opened.create_function("mod", 2, operator.mod)
    return opened


def not_connected() -> sqlite3.Connection:
    """Raise, as where a password is missing."""
    raise KeyError("DATABASE_PASSWORD")


def as_many_as(file: str) -> Dataset:
    """Return as many numbered rows as a file says now, in 4 blocks for each CPU."""
    blocks = 4 * int(ray.cluster_resources()["CPU"])  # type: ignore[no-untyped-call]
    return ray.data.range(int(Path(file).read_text("utf-8")), override_num_blocks=blocks)


def broken(batch: Batch, *, at: int = 0) -> Batch:
    """Raise where a row has the id `at`."""
    if at in batch["id"]:
        raise ValueError(f"row {at} is bad")
    return batch


def no_table(batch: Batch) -> int:
    """Return something that is no table."""
    return len(batch)


def row_sum(row: Batch) -> dict[str, object]:
    """Return a row with the sum of its x."""
    return {"id": row["id"], "sum": row["x"].sum()}


def fading(row: Batch) -> dict[str, object]:
    """Return rows of different length."""
    return {"x": np.zeros(int(row["id"]) + 1)}


class Counting:
    """A transform that is built once."""

    built = 0

    def __init__(self) -> None:
        Counting.built += 1

    def __call__(self, batch: Batch) -> Batch:
        return {**batch, "built": np.full(len(batch["id"]), Counting.built, dtype=np.float32)}


def numbers(rows: int = 100, blocks: int = 4) -> Dataset:
    """Return a Ray dataset with the ids 0, 1, ... and x = id."""
    made = ray.data.range(rows, override_num_blocks=blocks)
    return made.map_batches(
        lambda batch: {"id": batch["id"], "x": batch["id"][:, None].astype(np.float32)}
    )


def no_dataset() -> list[int]:
    """Return something that is no dataset."""
    return [1, 2]


def words(batch: Batch) -> dict[str, NDArray[np.generic]]:
    """Add a column of strings."""
    return {**batch, "word": np.array(["a"] * len(batch["id"]), dtype=object)}


def growing(batch: Batch) -> Batch:
    """Return wide rows from id 500 on."""
    wide = 64 if batch["id"][0] >= 500 else 1
    return {"id": batch["id"], "x": np.tile(batch["x"], (1, wide))}


def hundredfold(batch: Batch) -> Batch:
    """Return each row a hundred times."""
    return {name: np.repeat(array, 100, axis=0) for name, array in batch.items()}


def without_the_last(batch: Batch) -> Batch:
    """Return the rows but that with the id 999 and those next to it."""
    kept = batch["id"] < 900
    return {name: array[kept] for name, array in batch.items()}


def stacked(batch: Batch) -> Batch:
    """Return the ids row by row: numpy makes no stack of no rows."""
    return {"id": np.stack([np.asarray(value) for value in batch["id"]])}


def picky(batch: Batch, *, bad: Sequence[int] = ()) -> Batch:
    """Raise where a row has an id that is bad."""
    for row in batch["id"]:
        if int(row) in bad:
            raise ValueError(f"row {int(row)} is bad")
    return batch


def picky_in_place(batch: Batch, *, bad: Sequence[int] = ()) -> Batch:
    """Add to x before it raises where a row has an id that is bad."""
    batch["x"] += 1
    return picky(batch, bad=bad)


def louder(row: Batch) -> Batch:
    """Double the samples of a row in place; one without an id of at least 0 is bad."""
    row["audio"] *= 2
    if row["id"] < 0:
        raise ValueError("no id")
    return row


def never(row: Batch) -> Batch:
    """Raise, whatever comes."""
    raise ValueError(f"not {int(row['id'])} either")


def numbered_calls(batch: Batch) -> dict[str, object]:
    """Return for each row with how many it came."""
    rows = len(batch["id"])
    return {"rows": np.full(rows, rows)}


def only_alone(batch: Batch) -> Batch:
    """Raise for more than one row."""
    if len(batch["id"]) > 1:
        raise ValueError("too many rows")
    return batch


def opened(row: dict[str, object]) -> dict[str, object]:
    """Return the pixels of a row's picture."""
    content = row["image"]
    assert isinstance(content, bytes)
    return {"x": np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))}


def above(batch: object, *, least: float) -> object:
    """Keep the rows whose id is large enough: any format compares a column like that."""
    return batch["id"] > least  # type: ignore[index]  # a dict, a DataFrame or a Table


def first_of_each(batch: Batch) -> Batch:
    """Return the first row of a group, with its number of rows."""
    first = {name: array[:1] for name, array in batch.items()}
    return {**first, "rows": np.asarray([len(batch["id"])], dtype=np.float32)}


def listed(batch: Batch) -> dict[str, object]:
    """Return a row for each group: its ids in their order, and their number."""
    ids = np.zeros((1, 512), dtype=np.int64)
    ids[0, : len(batch["id"])] = batch["id"]
    return {"user": batch["user"][:1], "ids": ids, "count": [len(batch["id"])]}


def crumbled(batch: Batch) -> Batch:
    """Return each second row of a group, and of one with a single row none."""
    return {name: array[1::2] for name, array in batch.items()}


class Unmakeable:
    """A transform whose constructor raises."""

    tries = 0

    def __init__(self) -> None:
        Unmakeable.tries += 1
        raise RuntimeError("no model there")

    def __call__(self, batch: Batch) -> Batch:
        return batch


class Scaled:
    """A transform with a constructor that takes something."""

    def __init__(self, factor: float, *, column: str = "x") -> None:
        self._factor = factor
        self._column = column

    def __call__(self, batch: Batch) -> Batch:
        return {**batch, self._column: batch[self._column] * self._factor}


def with_users(batch: Batch, *, as_text: bool = True) -> dict[str, NDArray[np.generic]]:
    """Add who a row is of, and when it came: the other way round than it lies there."""
    ids = batch["id"].astype(np.int64)
    texts = np.array([f"user {number % 7}" for number in ids.tolist()], dtype=object)
    return {**batch, "user": texts if as_text else ids % 7, "when": -(ids // 3)}


def in_process(batch: Batch) -> Batch:
    """Add the process that it runs in."""
    return {**batch, "process": np.full(len(batch["id"]), os.getpid(), dtype=np.float64)}


def given_to_it(batch: Batch) -> dict[str, NDArray[np.generic]]:
    """Return what Ray has given to the task it runs in, CPUs and memory, in the place of x."""
    given = ray.get_runtime_context().get_assigned_resources()  # type: ignore[no-untyped-call]
    pair = [float(given.get("CPU", 0)), float(given.get("memory", 0))]
    return {"id": batch["id"], "x": np.tile(pair, (len(batch["id"]), 1))}


def noted(batch: object) -> object:
    """Return a batch that is a dict."""
    if not isinstance(batch, dict):
        raise TypeError(f"expected a dict, got a {type(batch).__name__}")
    return batch
