"""A Delta table is read as it was in one version, by what its log says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import dtypes_of, open_files, read_all
from tests.app.data.builders_tables import (
    delete_in_delta,
    table_rows,
    write_delta,
)
from trainshed_api.errors import SpecError


def test_rows_come_back_with_the_partitions_as_columns(tmp_path: Path) -> None:
    write_delta(tmp_path, table_rows(0, 30), partitions=["part"])
    write_delta(tmp_path, table_rows(30, 10))
    source = open_files(tmp_path, "delta")

    found = read_all(source)

    assert source.rows == 40
    assert source.schema is not None
    assert list(found) == source.schema.names == ["id", "x", "part"]
    assert sorted(found["id"].tolist()) == list(range(40))
    assert found["id"].dtype == np.int64
    assert found["x"].tolist() == [number / 8 for number in found["id"].tolist()]
    assert found["part"].tolist() == [f"p {number % 3}" for number in found["id"]]


def test_a_version_is_kept_while_others_are_written(tmp_path: Path) -> None:
    write_delta(tmp_path, table_rows(0, 10))
    source = open_files(tmp_path, "delta")
    write_delta(tmp_path, table_rows(100, 5), overwrite=True)

    assert read_all(source)["id"].tolist() == list(range(10))

    newest = open_files(tmp_path, "delta")
    assert read_all(newest)["id"].tolist() == list(range(100, 105))
    assert newest.fingerprint != source.fingerprint
    assert newest.files != source.files
    again = open_files(tmp_path, "delta", {"version": 0})
    assert again == source


def test_rows_from_before_a_column_was_added_have_no_value_there(tmp_path: Path) -> None:
    write_delta(tmp_path, table_rows(0, 5))
    rows = table_rows(5, 5).append_column("y", pa.array([1] * 5, pa.int64()))
    write_delta(tmp_path, rows.append_column("ok", pa.array([True] * 5)))
    source = open_files(tmp_path, "delta")

    found = read_all(source)

    want = {"id": "int64", "x": "float64", "part": "object", "y": "float64", "ok": "float64"}
    assert dtypes_of(source) == want
    assert dtypes_of(open_files(tmp_path, "delta", {}, ["ok"]), ["ok"]) == {"ok": "float64"}
    assert sorted(found["id"][np.isnan(found["y"])].tolist()) == list(range(5))
    assert np.isnan(found["ok"]).tolist() == np.isnan(found["y"]).tolist()


def test_rows_from_before_a_field_of_a_struct_was_added_have_no_value_there(tmp_path: Path) -> None:
    write_delta(tmp_path, pa.table({"id": [0], "s": [{"a": 1}]}))
    write_delta(tmp_path, pa.table({"id": [1], "s": [{"a": 2, "b": "y"}]}))

    found = read_all(open_files(tmp_path, "delta"))

    rows = dict(zip(found["id"].tolist(), found["s"].tolist(), strict=True))
    assert rows == {0: {"a": 1, "b": None}, 1: {"a": 2, "b": "y"}}


def test_numbers_of_which_one_is_missing_have_one_type_in_all_files(tmp_path: Path) -> None:
    kinds = {"n": pa.int64(), "ok": pa.bool_(), "whole": pa.int64(), "sure": pa.bool_()}
    for values in ([1, True, 1, True], [None, None, 2, False]):
        arrays = [pa.array([each], kind) for each, kind in zip(values, kinds.values(), strict=True)]
        write_delta(tmp_path, pa.table(arrays, schema=pa.schema(kinds)))

    source = open_files(tmp_path, "delta")

    want = {"n": "float64", "ok": "float64", "whole": "int64", "sure": "bool"}
    assert dtypes_of(source) == want


def test_partitions_have_the_types_of_the_table(tmp_path: Path) -> None:
    rows = pa.table({"x": [0.5, 1.5, 2.5], "year": pa.array([2024, None, 2025], pa.int32())})
    write_delta(tmp_path, rows, partitions=["year"])

    source = open_files(tmp_path, "delta")
    found = read_all(source)

    assert dtypes_of(source) == {"x": "float64", "year": "float64"}
    years = dict(zip(found["x"].tolist(), found["year"].tolist(), strict=True))
    assert (years[0.5], years[2.5]) == (2024, 2025)
    assert years[1.5] is None or np.isnan(years[1.5])


def test_times_of_96_bits_are_those_that_were_written(tmp_path: Path) -> None:
    """Spark's; the year 9999, by which people say never, was 1816."""
    times = [datetime(9999, 12, 31, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)]
    rows = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    write_delta(tmp_path, rows)
    [file] = tmp_path.glob("*.parquet")
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)

    found = read_all(open_files(tmp_path, "delta"))["at"]

    assert found.dtype == np.dtype("datetime64[us]")
    assert found.astype("datetime64[D]").astype(str).tolist() == ["9999-12-31", "2020-01-01"]


@dataclass(frozen=True)
class Mistake:
    """A table that is not read, and what is said of it."""

    write: Callable[[Path], None]
    options: dict[str, JsonValue]
    want: str


def write_one(folder: Path) -> None:
    write_delta(folder, table_rows(0, 5))


def write_mapped(folder: Path) -> None:
    write_delta(folder, table_rows(0, 5), configuration={"delta.columnMapping.mode": "name"})


def write_deleted(folder: Path) -> None:
    vectors: dict[str, str | None] = {"delta.enableDeletionVectors": "true"}
    write_delta(folder, table_rows(0, 5), configuration=vectors)
    delete_in_delta(folder, [1, 3])


def write_columns(folder: Path) -> None:
    (folder / "a.parquet").write_bytes(b"")


MISTAKES: dict[str, Mistake] = {
    "no table": Mistake(write_columns, {}, "expected a folder with the log of a Delta table"),
    "no such version": Mistake(
        write_one, {"version": 7}, r"options\.version: got 7; expected a version that .* still has"
    ),
    "columns that have other names in files": Mistake(
        write_mapped, {}, "with mode name; expected a Delta table without column mapping"
    ),
    "rows that were deleted": Mistake(
        write_deleted,
        {},
        "with 1 files that have deletion vectors; expected none: rewrite these files",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_what_is_not_read_is_refused(tmp_path: Path, mistake: Mistake) -> None:
    mistake.write(tmp_path)

    with pytest.raises(SpecError, match=mistake.want):
        open_files(tmp_path, "delta", mistake.options)


def test_a_table_whose_rows_could_be_marked_is_read_where_none_is(tmp_path: Path) -> None:
    write_delta(tmp_path, table_rows(0, 5), configuration={"delta.enableDeletionVectors": "true"})

    assert read_all(open_files(tmp_path, "delta"))["id"].tolist() == list(range(5))
