"""Rows are counted exactly: in all, of each file, with each value of a column."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.builders_rows import write_rows
from tests.app.data.builders_formats import write_csv, write_pictures
from tests.app.data.builders_media import write_film
from tests.app.inspect.builders import ignore, parquet_of, select
from trainshed.data.sources.errors import DataError
from trainshed.inspect import reading, writing
from trainshed.inspect.counting import count, count_by, count_by_file, lightest
from trainshed_api.errors import SpecError


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """Two files of rows."""
    write_csv(tmp_path / "csv" / "a.csv", 0, 600)
    write_csv(tmp_path / "csv" / "b.csv.gz", 600, 401)
    return tmp_path / "csv"


def test_all_rows_are_counted(csv: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 240)
    assert count(select(csv, "csv"), 1, ignore) == 1001
    assert count(select(tmp_path / "rows", "parquet"), 1, ignore) == 240


def test_integers_that_floats_would_round_are_shown_and_counted_apart(tmp_path: Path) -> None:
    base = 2**60
    ids = pa.array([base + 1, base + 2, base + 3, None, base + 1], pa.int64())
    pq.write_table(pa.table({"user": ids}), tmp_path / "a.parquet", row_group_size=2)
    given = select(tmp_path, "parquet")

    assert count_by(given, "user", 1, ignore) == {base + 1: 2, base + 2: 1, base + 3: 1, None: 1}
    assert [row["user"] for row in reading.first_rows(given, 5)] == ids.to_pylist()


def test_what_transforms_leave_is_counted(csv: Path) -> None:
    assert count(select(csv, "csv", "keep_even"), 1, ignore) == 501
    assert count(select(csv, "csv", "keep_none"), 1, ignore) == 0


@pytest.mark.parametrize("by", [False, True])
def test_of_large_rows_few_are_read_at_once(
    by: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 8192)
    (tmp_path / "a.txt").write_text(("x" * 1023 + "\n") * 20)
    given = select(tmp_path, "text", "at_most_ten")

    found = count_by(given, "text", 1, ignore) if by else count(given, 1, ignore)

    assert found == ({"x" * 1023: 20} if by else 20)


def test_a_transform_gets_as_many_large_rows_as_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reading, writing):
        monkeypatch.setattr(module, "CHUNK_BYTES", 2048)
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.txt").write_text(("x" * 1023 + "\n") * 20)
    given = select(tmp_path / "from", "text", "joined")
    (function,) = given.transforms
    given = replace(given, transforms=(replace(function, batch_size=8),))

    assert count(given, 1, ignore) == 3
    assert parquet_of(given, tmp_path / "to")["rows"].tolist() == [8, 8, 4]


def test_films_are_counted_without_their_frames(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 20)
    given = select(tmp_path, "video")
    assert given.source.scan.schema
    assert lightest(given.source.scan.schema) == "number"
    assert count(given, 1, ignore) == 20


def test_rows_of_each_file_are_counted(csv: Path, tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", {"cat": 2, "dog": 1})
    assert count_by_file(select(csv, "csv"), 1, ignore) == {"a.csv": 600, "b.csv.gz": 401}
    assert count_by_file(select(csv, "csv", "keep_even"), 1, ignore) == {
        "a.csv": 300,
        "b.csv.gz": 201,
    }
    assert count_by_file(select(tmp_path / "pictures", "images"), 1, ignore) == {
        "cat/0000.png": 1,
        "cat/0001.png": 1,
        "dog/0000.png": 1,
    }


def test_values_are_counted(csv: Path) -> None:
    counts = count_by(select(csv, "csv"), "name", 1, ignore)
    assert sorted(counts.values()) == [250, 250, 250, 251]
    assert list(counts) == sorted(counts, key=str)


def test_labels_are_counted_by_the_names_of_their_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cat": 2, "ant": 1})
    assert count_by(select(tmp_path, "images"), "label", 1, ignore) == {"ant": 1, "cat": 2}


def test_labels_that_a_transform_made_are_numbers(tmp_path: Path) -> None:
    """They had the names of other folders, or of none, which was an IndexError."""
    write_pictures(tmp_path, {"cat": 2, "ant": 1})
    counts = count_by(select(tmp_path, "images", "next_label"), "label", 1, ignore)
    assert counts == {1: 1, 2: 2}


def test_bytes_that_are_no_text_are_counted_apart(tmp_path: Path) -> None:
    values = [b"\xff", b"\xfe", b"\xff", b"a"]
    pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet")
    counts = count_by(select(tmp_path, "parquet"), "x", 1, ignore)
    assert counts == {b"\xff": 2, b"\xfe": 1, "a": 1}


def test_times_that_are_none_are_missing(tmp_path: Path) -> None:
    days = pa.array([0, None, 0], pa.date32())
    lasting = pa.array([1, 1, None], pa.duration("ms"))
    pq.write_table(pa.table({"day": days, "lasting": lasting}), tmp_path / "a.parquet")
    chosen = select(tmp_path, "parquet")
    assert count_by(chosen, "day", 1, ignore) == {"1970-01-01": 2, None: 1}
    assert count_by(chosen, "lasting", 1, ignore) == {"1 milliseconds": 2, None: 1}


def test_what_is_missing_is_counted_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,\n,2\n1,\n")
    assert count_by(select(tmp_path, "csv"), "x", 1, ignore) == {1: 2, None: 1}
    assert count_by(select(tmp_path, "csv"), "y", 1, ignore) == {2: 1, None: 2}


def test_a_column_that_is_not_there_is_said(csv: Path) -> None:
    for chosen in (select(csv, "csv"), select(csv, "csv", "keep_even")):
        with pytest.raises(SpecError) as refused:
            count_by(chosen, "label", 1, ignore)
        assert str(refused.value) == '--by: got "label"; expected one of id, x, name'


def test_too_many_values_are_refused(csv: Path) -> None:
    with pytest.raises(DataError, match=r"--by id: more than 100 values \(0, 1, 2, \.\.\.\)"):
        count_by(select(csv, "csv"), "id", 1, ignore)


def test_arrays_are_no_values(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    with pytest.raises(DataError, match="--by data: rows hold ndarrays there"):
        count_by(select(tmp_path, "numpy"), "data", 1, ignore)
