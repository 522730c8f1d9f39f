"""A Lance table is read as it was in one version, fragment by fragment."""

import subprocess
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.app.data.builders_formats import dtypes_of, open_files, read_all
from tests.app.data.builders_plan import FUNCTIONS, make_plan
from tests.app.data.builders_tables import table_rows, write_lance
from trainshed.data.sampler.bad_records import BadRecordList, BadRecordLog
from trainshed.data.sampler.dataset_plan import with_reporter
from trainshed.data.sources.column_arrays import join
from trainshed.data.sources.dataset_files import read_fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import read_whole, reading
from trainshed.data.sources.opener import FileAccess
from trainshed.failures import InfrastructureError
from trainshed.retry import RetryPolicy
from trainshed_api.errors import SpecError

IMPATIENT = FileAccess(RetryPolicy(pauses=()))


def test_rows_come_back_and_are_told(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(750, dtype=np.float32), 3)
    write_lance(tmp_path / "rows", table_rows(0, 250).append_column("vector", vectors))
    source = open_files(tmp_path / "rows", "lance")

    found = read_all(source)

    assert source.rows == 250
    assert [fragment.rows for fragment in source.fragments] == [100, 100, 50]
    assert list(found) == ["id", "x", "part", "vector"]
    assert found["id"].tolist() == list(range(250))
    assert found["part"].tolist() == [f"p {number % 3}" for number in range(250)]
    assert found["vector"].tolist() == np.arange(750).reshape(-1, 3).tolist()
    assert list(read_all(source, ["x"])) == ["x"]


def test_numbers_of_which_one_is_missing_have_one_type_in_all_tables(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "a Number": pa.array([0, 1, None, 3], pa.int64()),
            "code": pa.array([7, None, 8, 7], pa.int64()).dictionary_encode(),
            "ok": pa.array([True, None, False, True]),
            "sure": pa.array([True, True, False, True]),
        }
    )
    write_lance(tmp_path / "rows", rows)

    source = open_files(tmp_path / "rows", "lance")

    floats = dict.fromkeys(["a Number", "code", "ok"], "float64")
    assert dtypes_of(source) == {"id": "int64", **floats, "sure": "bool"}
    assert dtypes_of(open_files(tmp_path / "rows", "lance", {}, ["ok"]), ["ok"]) == {
        "ok": "float64"
    }
    lance.dataset(tmp_path / "rows").delete("id = 2")
    assert dtypes_of(open_files(tmp_path / "rows", "lance"))["a Number"] == "int64"


def test_a_large_fragment_is_cut_at_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.lance.FRAGMENT_BYTES", 1000)
    write_lance(tmp_path / "rows", table_rows(0, 250))
    lance.dataset(tmp_path / "rows").delete("id % 10 = 3")

    source = open_files(tmp_path / "rows", "lance")

    assert len(source.fragments) > 6
    assert source.rows == 225
    assert read_all(source)["id"].tolist() == [n for n in range(250) if n % 10 != 3]


def test_bad_rows_of_pieces_of_a_fragment_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.lance.FRAGMENT_BYTES", 1000)
    write_lance(tmp_path / "rows", table_rows(0, 100))
    plan = make_plan(
        tmp_path / "rows",
        read={"format": "lance"},
        onBadRecord="skip",
        transforms=[{"use": f"{FUNCTIONS}:picky", "options": {"bad": [0, 1, 2, 98, 99]}}],
    )
    assert plan.source
    assert len({fragment.path for fragment in plan.source.fragments}) == 1
    left_out, told = BadRecordLog(plan.field, 100, None), list[BadRecordList]()
    how = reading(with_reporter(plan, told.append))

    tables = [read_whole(how, fragment) for fragment in plan.source.fragments]

    for each in told:
        left_out.take(each)
    assert join(tables)["id"].tolist() == list(range(3, 98))
    assert left_out.rows == 5
    places = [record.place for record in left_out.first]
    assert places == [f"row {row} of fragment 0" for row in (0, 1, 2, 98, 99)]


def test_a_version_is_kept_while_others_are_written(tmp_path: Path) -> None:
    write_lance(tmp_path / "rows", table_rows(0, 10))
    source = open_files(tmp_path / "rows", "lance")
    write_lance(tmp_path / "rows", table_rows(100, 5), overwrite=True)

    assert read_all(source)["id"].tolist() == list(range(10))

    newest = open_files(tmp_path / "rows", "lance")
    assert read_all(newest)["id"].tolist() == list(range(100, 105))
    assert newest.fingerprint != source.fingerprint
    assert newest.files != source.files
    assert open_files(tmp_path / "rows", "lance", {"version": 1}) == source


def test_versions_that_differ_in_deleted_rows_alone_are_told_apart(tmp_path: Path) -> None:
    prints = set()
    for deleted in (3, 4):
        folder = tmp_path / "rows"
        if not folder.exists():
            write_lance(folder, table_rows(0, 10))
        lance.dataset(folder).delete(f"id = {deleted}")
        prints.add(open_files(folder, "lance").fingerprint)
        lance.dataset(folder, version=1).restore()  # type: ignore[no-untyped-call]

    assert len(prints) == 2


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"read\.path: got .*; expected a folder with a Lance table"
    ):
        open_files(tmp_path, "lance")


def test_a_version_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_lance(tmp_path / "rows", table_rows(0, 10))

    with pytest.raises(
        SpecError, match=r"options\.version: got 7; expected a version that .* still"
    ):
        open_files(tmp_path / "rows", "lance", {"version": 7})


def test_a_damaged_file_is_the_users(tmp_path: Path) -> None:
    write_lance(tmp_path / "rows", table_rows(0, 100))
    source = open_files(tmp_path / "rows", "lance")
    [file] = (tmp_path / "rows" / "data").iterdir()
    file.write_bytes(b"\xff" * file.stat().st_size)

    with pytest.raises(DataError, match=file.name):
        read_all(source)


def test_a_file_that_is_gone_is_the_worlds(tmp_path: Path) -> None:
    write_lance(tmp_path / "rows", table_rows(0, 100))
    source = open_files(tmp_path / "rows", "lance")
    [file] = (tmp_path / "rows" / "data").iterdir()
    file.unlink()

    with pytest.raises(InfrastructureError, match="cannot be read"):
        list(read_fragment(source.scan, source.fragments[0], (), 10, IMPATIENT))


def test_a_run_that_reads_it_starts_programs_without_a_word(tmp_path: Path) -> None:
    write_lance(tmp_path / "rows", table_rows(0, 10))
    read = f"{{'format': 'lance', 'path': {str(tmp_path / 'rows')!r}}}"
    program = f"""
import subprocess
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.disk import Disk
from trainshed_api.rows import ReadSpec
read = ReadSpec.model_validate({read})
open_source(Disk(read.path), read, "read")
subprocess.run(["true"], preexec_fn=lambda: None)
"""

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stderr == ""
