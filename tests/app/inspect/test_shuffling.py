"""A shuffle by buckets: every row once, the same however rows arrive, well mixed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from trainshed.inspect import shuffling
from trainshed.inspect.shuffling import BUCKET_BYTES, MOST_BUCKETS, num_buckets, shuffled

ROWS = 5000


def cut(rows: int) -> Iterator[pa.Table]:
    """Yield numbered rows, so many a table."""
    for start in range(0, ROWS, rows):
        yield pa.table({"row": np.arange(start, min(start + rows, ROWS))})


def order(folder: Path, rows: int = 700, buckets: int = 7, seed: int = 3) -> list[int]:
    folder.mkdir(exist_ok=True)
    tables = list(shuffled(cut(rows), seed, buckets, folder))
    assert list(folder.iterdir()) == []
    return [row for table in tables for row in table["row"].to_pylist()]


@pytest.mark.parametrize("buckets", [1, 7])
def test_each_row_comes_once_and_far_from_its_place(buckets: int, tmp_path: Path) -> None:
    found = order(tmp_path, buckets=buckets)
    assert sorted(found) == list(range(ROWS))
    # Of a permutation by chance it is a third of all rows.
    distance = np.abs(np.asarray(found) - np.arange(ROWS)).mean()
    assert distance == pytest.approx(ROWS / 3, rel=0.05)


def test_it_hangs_on_the_seed_and_not_on_how_rows_arrive(tmp_path: Path) -> None:
    assert order(tmp_path, rows=700) == order(tmp_path, rows=11) != order(tmp_path, seed=4)


def test_what_memory_does_not_hold_goes_through_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = order(tmp_path)
    monkeypatch.setattr(shuffling, "HELD_BYTES", 7 * 512)

    written = shuffled(cut(700), 3, 7, tmp_path)
    first = next(written)
    assert len(list(tmp_path.iterdir())) == 6  # the first one was read already
    rest = [row for table in [first, *written] for row in table["row"].to_pylist()]
    assert rest == in_memory


def test_no_bucket_is_large_while_that_can_be() -> None:
    assert num_buckets(0) == 1
    assert num_buckets(3.5 * BUCKET_BYTES) == 4
    assert num_buckets(1e18) == MOST_BUCKETS
