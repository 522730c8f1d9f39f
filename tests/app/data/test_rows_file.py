"""Rows that are kept as parquet chunk by chunk are those that came, or refused by their column."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainshed.data.loader.arrow_blocks import to_block
from trainshed.data.loader.rows_file import RowsFile
from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.column_arrays import Array, Columns, num_rows
from trainshed.data.sources.errors import DataError

FIELD = "spec.data.datasets.train"


def objects(*values: object) -> Array:
    """Return a column of any values."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def written(path: Path, *tables: Columns) -> Columns:
    """Return what is read of a file of these tables."""
    file = RowsFile(path, FIELD)
    for table in tables:
        file.add(to_block(table))
    file.close()
    assert (file.rows, file.groups) == (sum(map(num_rows, tables)), len(tables))
    assert pq.ParquetFile(path).num_row_groups == max(1, file.groups)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    return from_arrow(pq.read_table(path))


WIDER: dict[str, tuple[Array, Array, list[object]]] = {
    "texts of which the first are missing": (
        objects(None, None),
        objects("a", None),
        [None, None, "a", None],
    ),
    "texts of which the last are missing": (objects("a"), objects(None), ["a", None]),
    "larger floats": (
        np.asarray([0.5], dtype=np.float32),
        np.asarray([1e300, 0.1]),
        [0.5, 1e300, 0.1],
    ),
    "smaller floats": (
        np.asarray([1e300, 0.1]),
        np.asarray([0.5], dtype=np.float32),
        [1e300, 0.1, 0.5],
    ),
    "integers, and floats": (np.asarray([1, 2]), np.asarray([0.5]), [1.0, 2.0, 0.5]),
    "floats, and integers": (np.asarray([0.5]), np.asarray([1, 2]), [0.5, 1.0, 2.0]),
    "larger integers": (np.asarray([1], dtype=np.int8), np.asarray([2**40]), [1, 2**40]),
}


@pytest.mark.parametrize(("first", "second", "want"), WIDER.values(), ids=WIDER)
def test_a_type_becomes_as_wide_as_its_values_need(
    tmp_path: Path, first: Array, second: Array, want: list[object]
) -> None:
    pictures = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    start = len(first)
    tables: list[Columns] = [
        {"a": first, "picture": pictures[:start]},
        {"picture": pictures[start : len(want)], "a": second},  # in another order, too
    ]

    found = written(tmp_path / "rows.parquet", *tables)

    assert found["a"].tolist() == want
    assert found["picture"].tolist() == pictures[: len(want)].tolist()


def test_an_integer_that_comes_to_miss_stays_what_it_was(tmp_path: Path) -> None:
    found = written(tmp_path / "rows.parquet", {"a": np.asarray([3])}, {"a": np.asarray([np.nan])})

    assert found["a"][0] == 3
    assert np.isnan(found["a"][1])


REFUSED: dict[str, tuple[Columns, Columns, str]] = {
    "numbers, and texts": (
        {"a": np.asarray([1])},
        {"a": objects("b")},
        "a has int64 in some rows and ",
    ),
    "texts, and bytes": ({"a": objects("b")}, {"a": objects(b"b")}, "a has "),
    "an integer that no float is": (
        {"a": np.asarray([2**53 + 1])},
        {"a": np.asarray([0.5])},
        "a has int64 in some rows: ",
    ),
    "arrays of other shapes": ({"a": np.zeros((1, 2, 3))}, {"a": np.zeros((1, 2, 4))}, "a has "),
    "arrays, and none": ({"a": np.zeros((1, 2))}, {"a": objects(None)}, "a has "),
    "a column more": (
        {"a": np.asarray([1])},
        {"a": np.asarray([1]), "b": np.asarray([1])},
        "b has values in some rows alone",
    ),
}


@pytest.mark.parametrize(("first", "second", "want"), REFUSED.values(), ids=REFUSED)
def test_what_no_type_holds_is_refused_by_its_column(
    tmp_path: Path, first: Columns, second: Columns, want: str
) -> None:
    with pytest.raises(DataError, match=f"^{FIELD}.cache: got disk; expected another, .*: {want}"):
        written(tmp_path / "rows.parquet", first, second)


def test_a_file_without_a_row_has_no_column(tmp_path: Path) -> None:
    assert written(tmp_path / "rows.parquet") == {}
