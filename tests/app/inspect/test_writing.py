"""Rows of any files become parquet: the same ones, in the same order, whole or not at all."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.builders_rows import write_rows
from tests.app.data.builders_formats import write_csv, write_json, write_npy, write_pictures
from tests.app.data.builders_formats import write_text as write_lines
from tests.app.inspect.builders import (
    ONE_FILE,
    ignore,
    parquet_of,
    read_back,
    rows_of,
    select,
    write_to,
)
from trainshed.data.sources.column_arrays import Columns, say_columns
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.inspect.reading import samples
from trainshed.inspect.writing import WriteOptions, likely_rows, write
from trainshed.storage.folder import UNDERWAY, Folder
from trainshed_api.errors import SpecError

ROWS = 1000


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of rows."""
    folder = tmp_path_factory.mktemp("csv")
    write_csv(folder / "a.csv", 0, 600)
    write_csv(folder / "b.csv", 600, 400)
    return folder


def assert_same(found: Columns, want: Columns) -> None:
    assert list(found) == list(want)
    for name, array in want.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("form", ["csv", "json", "text", "numpy", "images", "parquet"])
def test_rows_come_back_as_they_were(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "from"
    match form:
        case "csv":
            write_csv(folder / "a.csv.gz", 0, ROWS)
        case "json":
            write_json(folder / "a.jsonl", 0, ROWS)
        case "text":
            write_lines(folder / "a.txt", 0, ROWS)
        case "numpy":
            write_npy(folder / "a.npy", 0, ROWS)
        case "images":
            write_pictures(folder, {"cat": 3, "dog": 2})
        case _:
            write_rows(folder, ROWS)
    chosen = select(folder, form)

    assert_same(parquet_of(chosen, tmp_path / "to"), rows_of(chosen))


def test_pictures_that_transforms_make_keep_shape_and_type(csv: Path, tmp_path: Path) -> None:
    found = parquet_of(select(csv, "csv", "as_pictures"), tmp_path / "to")
    assert say_columns(found) == "id int64, picture float16[2, 3]"
    np.testing.assert_array_equal(found["picture"][:, 1, 2], np.arange(ROWS, dtype=np.float16))


def test_lists_that_transforms_make_keep_their_lengths(csv: Path, tmp_path: Path) -> None:
    found = parquet_of(select(csv, "csv", "as_lists"), tmp_path / "to")
    assert [len(row) for row in found["tokens"]] == [number % 3 for number in range(ROWS)]


@pytest.mark.parametrize(
    ("use", "want"), [("keep_even", range(0, ROWS, 2)), ("keep_late", range(500, ROWS))]
)
def test_transforms_may_leave_rows_out(use: str, want: range, csv: Path, tmp_path: Path) -> None:
    found = parquet_of(select(csv, "csv", use), tmp_path / "to")
    assert found["id"].tolist() == list(want)


@pytest.mark.parametrize(
    "values", [pa.array([1, None, 3], pa.int64()), pa.array([True, None, False])]
)
def test_numbers_keep_their_type_though_some_are_missing(tmp_path: Path, values: pa.Array) -> None:
    """They were written as floats, and what was missing as NaN."""
    (tmp_path / "from").mkdir()
    pq.write_table(pa.table({"n": values}), tmp_path / "from" / "a.parquet")

    write_to(select(tmp_path / "from", "parquet"), tmp_path / "to")

    found = pq.read_table(tmp_path / "to" / "part-00000.parquet")["n"]
    assert found.type == values.type
    assert found.to_pylist() == values.to_pylist()


def test_files_have_so_many_rows(csv: Path, tmp_path: Path) -> None:
    done = write_to(select(csv, "csv"), tmp_path / "to", replace(ONE_FILE, rows_per_file=300))

    files = sorted((tmp_path / "to").iterdir())
    assert [file.name for file in files] == [f"part-0000{number}.parquet" for number in range(4)]
    assert [pq.read_metadata(file).num_rows for file in files] == [300, 300, 300, 100]
    assert (done.rows, done.files) == (ROWS, 4)
    assert done.bytes == sum(file.stat().st_size for file in files)


def test_files_and_row_groups_have_a_good_size(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((6 * 2**14, 64))  # 48 MB that do not pack
    (tmp_path / "from").mkdir()
    np.save(tmp_path / "from" / "a.npy", noise)

    write_to(
        select(tmp_path / "from", "numpy"), tmp_path / "to", WriteOptions(file_bytes=25 * 2**20)
    )

    footers = [pq.read_metadata(file) for file in sorted((tmp_path / "to").iterdir())]
    groups = [
        footer.row_group(number).total_byte_size
        for footer in footers
        for number in range(footer.num_row_groups)
    ]
    assert len(footers) == 2
    assert min(groups[:-1]) > 12 * 2**20
    assert max(groups) < 17 * 2**20
    np.testing.assert_array_equal(read_back(tmp_path / "to")["data"], noise)


def test_other_processes_read_the_same(tmp_path: Path) -> None:
    numbers = np.arange(9 * 2**20, dtype=np.float32).reshape(-1, 256)  # 36 MB, three fragments
    (tmp_path / "from").mkdir()
    np.save(tmp_path / "from" / "a.npy", numbers)
    chosen = select(tmp_path / "from", "numpy")

    found = parquet_of(chosen, tmp_path / "to", replace(ONE_FILE, processes=2))

    np.testing.assert_array_equal(found["data"], numbers)


def test_a_shuffle_has_each_row_once_in_an_order_of_its_seed(csv: Path, tmp_path: Path) -> None:
    def order(seed: int, name: str) -> list[int]:
        options = replace(ONE_FILE, seed=seed)
        found: list[int] = parquet_of(select(csv, "csv"), tmp_path / name, options)["id"].tolist()
        return found

    one, again, other = order(1, "one"), order(1, "again"), order(2, "other")
    assert one == again != other
    assert sorted(one) == sorted(other) == list(range(ROWS)) != one


@pytest.mark.parametrize(("use", "rows"), [("keep_even", 500), ("repeat", 3000)])
def test_a_shuffle_makes_room_for_what_transforms_make(use: str, rows: int, csv: Path) -> None:
    """Buckets were for as many rows as were read: of windows, many from each, they overflowed."""
    given = select(csv, "csv", use)
    of_all = likely_rows(select(csv, "csv"), samples(select(csv, "csv")))
    assert likely_rows(given, samples(given)) == pytest.approx(of_all * rows / ROWS, rel=0.02)


@pytest.mark.parametrize("use", ["grow_late", "fail_late"])
def test_of_what_fails_nothing_is_left(use: str, csv: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as failed:
        write_to(select(csv, "csv", use), tmp_path / "to")
    assert isinstance(failed.value, FunctionError) == (use == "fail_late")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("use", "want"),
    [
        ("keep_none", "spec.data.datasets.train: no rows, so that there is nothing to write"),
        ("as_complex", "column z: complex128 is no type of parquet"),
    ],
)
def test_what_cannot_be_written_is_said(use: str, want: str, csv: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        write_to(select(csv, "csv", use), tmp_path / "to")
    assert str(refused.value).startswith(want)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_is_left_alone(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "mine").write_text("mine")
    with pytest.raises(SpecError) as refused:
        write_to(select(csv, "csv"), tmp_path / "to")
    assert str(refused.value) == f"--to: got {tmp_path}/to; expected a new folder, or an empty one"
    assert [path.name for path in tmp_path.rglob("*")] == ["to", "mine"]


@pytest.mark.s3
def test_a_bucket_gets_the_same_rows(csv: Path, in_bucket: Folder, tmp_path: Path) -> None:
    write_to(select(csv, "csv"), tmp_path / "to")
    write(select(csv, "csv"), in_bucket / "to", replace(ONE_FILE, rows_per_file=600), ignore)

    there = in_bucket / "to"
    assert there.names() == ["part-00000.parquet", "part-00001.parquet"]
    fetched = tmp_path / "fetched-here"
    fetched.mkdir()
    for name in there.names():
        there.fetch(name, fetched / name)
    assert_same(read_back(fetched), read_back(tmp_path / "to"))
    assert UNDERWAY not in there.names()
