"""Shuffles rows that exceed memory: first into buckets on disk, then each bucket in memory.

The bucket of each row is random, and so is the order within a bucket. So every order of all
rows is equally likely (Rao, 1961; Sandelius, 1962).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# Memory holds a bucket and its shuffled copy. More buckets would be written in pieces of a few
# rows.
BUCKET_BYTES = 128 * 2**20
MOST_BUCKETS = 4096
# Memory of all buckets together, before rows are written.
HELD_BYTES = 128 * 2**20
# A separate stream of random numbers for each use of the seed.
_BUCKET, _WITHIN = 1, 2


def num_buckets(num_bytes: float) -> int:
    """Return the number of buckets for this many bytes."""
    return min(MOST_BUCKETS, max(1, math.ceil(num_bytes / BUCKET_BYTES)))


def shuffled(
    tables: Iterable[pa.Table], seed: int, buckets: int, aside: Path
) -> Iterator[pa.Table]:
    """Yield the rows of all tables, each once, in an order that depends only on the seed.

    Args:
        tables: with rows in a reproducible order; table boundaries do not matter.
        seed: at least 0.
        buckets: at least one.
        aside: an empty folder with enough space for all rows.
    """
    parts = _Buckets(aside, buckets)
    chance = np.random.default_rng([seed, _BUCKET])
    for table in tables:
        parts.take(table, chance.integers(0, buckets, table.num_rows))
    for number in range(buckets):
        found = parts.give(number)
        if found is not None:
            order = np.random.default_rng([seed, _WITHIN, number]).permutation(found.num_rows)
            yield found.take(pa.array(order))


class _Buckets:
    """Buffers rows for several files, and writes many rows of a file at a time."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._most_bytes = HELD_BYTES // number
        self._held: list[list[pa.Table]] = [[] for _ in range(number)]
        self._bytes = [0] * number

    def take(self, table: pa.Table, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Add rows; chosen: (rows,) the bucket of each."""
        order = np.argsort(chosen, kind="stable")
        sorted_rows = table.take(pa.array(order))
        numbers, begins = np.unique(chosen[order], return_index=True)
        ends = [*begins[1:].tolist(), table.num_rows]
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True):
            part = sorted_rows.slice(begin, end - begin)
            self._held[number].append(part)
            self._bytes[number] += part.nbytes
            if self._bytes[number] > self._most_bytes:
                self._write(number)

    def give(self, number: int) -> pa.Table | None:
        """Return and remove the rows of a bucket, in the order they were added."""
        held, self._held[number] = self._held[number], []
        file = self._file(number)
        written = list(_read(file)) if file.exists() else []
        file.unlink(missing_ok=True)
        tables = [*written, *held]
        # Rows are taken one by one, which needs no search in a single chunk.
        return pa.concat_tables(tables).combine_chunks() if tables else None

    def _write(self, number: int) -> None:
        table = pa.concat_tables(self._held[number])
        # One stream at a time: there may be more files than may be open.
        with self._file(number).open("ab") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.combine_chunks())
        self._held[number], self._bytes[number] = [], 0

    def _file(self, number: int) -> Path:
        return self._folder / f"bucket-{number}"


def _read(file: Path) -> Iterator[pa.Table]:
    with file.open("rb") as opened:
        while opened.peek(1):
            yield pa.ipc.open_stream(opened).read_all()
