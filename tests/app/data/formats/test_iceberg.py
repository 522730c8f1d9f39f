"""An Iceberg table is read as it was in one snapshot, by what its catalog and its metadata say."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from tests.app.data.builders_formats import FIELD, dtypes_of, read_all
from tests.app.data.builders_tables import (
    TABLE,
    catalog_in,
    delete_in_iceberg,
    open_catalog,
    table_rows,
    write_iceberg,
    write_iceberg_into,
)
from tests.s3 import S3Server
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.opener import FileAccess
from trainshed.failures import InfrastructureError
from trainshed.retry import RetryPolicy
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

IMPATIENT = FileAccess(RetryPolicy(pauses=()))


def open_table(
    catalog: Mapping[str, str],
    name: str = TABLE,
    snapshot: int | None = None,
    access: FileAccess = IMPATIENT,
) -> Source:
    told = {"catalog": dict(catalog), "snapshot": snapshot}
    read = ReadSpec.model_validate({"format": "iceberg", "path": name, "options": told})
    return open_source(Disk(Path("/nowhere") / name), read, FIELD, access)


def table_of(folder: Path) -> Table:
    return open_catalog(catalog_in(folder)).load_table(TABLE)


def test_rows_come_back_and_are_told(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 30))
    write_iceberg(tmp_path, table_rows(30, 10))
    source = open_table(catalog_in(tmp_path))

    found = read_all(source)

    assert source.rows == 40
    assert list(found) == ["id", "x", "part"]
    assert sorted(found["id"].tolist()) == list(range(40))
    assert found["id"].dtype == np.int64
    assert found["x"].tolist() == [number / 8 for number in found["id"].tolist()]
    assert found["part"].tolist() == [f"p {number % 3}" for number in found["id"].tolist()]
    assert list(read_all(source, ["part"])) == ["part"]


def test_a_snapshot_is_kept_while_others_are_written(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 10))
    source = open_table(catalog_in(tmp_path))
    write_iceberg(tmp_path, table_rows(100, 5), overwrite=True)

    assert read_all(source)["id"].tolist() == list(range(10))

    newest = open_table(catalog_in(tmp_path))
    assert read_all(newest)["id"].tolist() == list(range(100, 105))
    assert newest.fingerprint != source.fingerprint
    assert newest.files != source.files
    first = table_of(tmp_path).metadata.snapshots[0].snapshot_id
    again = open_table(catalog_in(tmp_path), snapshot=first)
    assert again.fingerprint == source.fingerprint
    assert read_all(again)["id"].tolist() == list(range(10))


def test_a_table_names_no_function_that_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_iceberg(tmp_path, table_rows(0, 30))
    with monkeypatch.context() as writing:
        writing.setattr(Catalog, "_load_file_io", lambda *_, **__: PyArrowFileIO())
        with table_of(tmp_path).transaction() as change:
            change.set_properties({"py-io-impl": "builtins.print"})

    found = read_all(open_table(catalog_in(tmp_path)))

    assert found["id"].tolist() == list(range(30))
    assert capsys.readouterr().out == ""


def test_rows_that_were_deleted_are_left_out(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 10))
    whole = open_table(catalog_in(tmp_path))
    table = table_of(tmp_path)
    [task] = table.scan().plan_files()
    delete_in_iceberg(table, task.file.file_path, [1, 3])

    source = open_table(catalog_in(tmp_path))

    assert source.rows is None
    assert source.likely_rows == pytest.approx(10, rel=0.3)
    found = read_all(source, chunk_rows=3)
    assert found["id"].tolist() == [0, 2, 4, 5, 6, 7, 8, 9]
    assert found["part"].tolist() == [f"p {number % 3}" for number in found["id"].tolist()]
    assert list(read_all(source, ["x"])) == ["x"]
    assert source.fingerprint != whole.fingerprint
    assert read_all(whole)["id"].tolist() == list(range(10))


def test_a_column_that_was_renamed_or_added_is_read_from_older_files(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 4))
    with table_of(tmp_path).update_schema() as update:
        update.rename_column("x", "value")
    more = table_rows(4, 2).rename_columns(["id", "value", "part"])
    write_iceberg(tmp_path, more.append_column("y", pa.array([1.5, 2.5])))

    source = open_table(catalog_in(tmp_path))

    found = read_all(source)
    assert source.rows == 6
    assert list(found) == ["id", "value", "part", "y"]
    rows = sorted(zip(*(found[name].tolist() for name in ("id", "value", "y")), strict=True))
    assert [row[1] for row in rows] == [number / 8 for number in range(6)]
    assert [row[2] for row in rows if not np.isnan(row[2])] == [1.5, 2.5]


LACKING = pa.table(
    {
        "id": pa.array([0, 1, 2, 3], pa.int64()),
        "n": pa.array([0, 1, None, 3], pa.int64()),
        "ok": pa.array([True, None, False, True]),
        "sure": pa.array([True, True, False, True]),
    }
)
LACKING_TYPES = {"id": "int64", "n": "float64", "ok": "float64", "sure": "bool"}


def test_numbers_of_which_one_is_missing_have_one_type_in_all_tables(tmp_path: Path) -> None:
    write_iceberg(tmp_path, LACKING)

    assert dtypes_of(open_table(catalog_in(tmp_path))) == LACKING_TYPES


def test_they_have_it_in_files_with_deletes_too(tmp_path: Path) -> None:
    write_iceberg(tmp_path, LACKING)
    table = table_of(tmp_path)
    [task] = table.scan().plan_files()
    delete_in_iceberg(table, task.file.file_path, [3])

    source = open_table(catalog_in(tmp_path))

    assert source.rows is None
    assert dtypes_of(source) == LACKING_TYPES


def test_a_column_that_was_added_is_of_floats_in_newer_files_too(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 4))
    write_iceberg(tmp_path, table_rows(4, 2).append_column("y", pa.array([1, 2], pa.int64())))

    found = dtypes_of(open_table(catalog_in(tmp_path)))

    assert (found["id"], found["y"]) == ("int64", "float64")


def test_a_partition_that_its_files_do_not_hold_keeps_its_type(tmp_path: Path) -> None:
    """As files have it that Hive wrote: each has one value, which the table knows."""
    write_iceberg(tmp_path, table_rows(0, 1).slice(0, 0))
    with table_of(tmp_path).update_schema() as update:
        update.add_column("year", IntegerType())
    with table_of(tmp_path).update_spec() as spec:
        spec.add_identity("year")
    with table_of(tmp_path).transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.year": "none"})
    years = pa.array([2024, 2025], pa.int32())
    write_iceberg(tmp_path, table_rows(0, 2).append_column("year", years))
    for task in table_of(tmp_path).scan().plan_files():
        path = Path(task.file.file_path.removeprefix("file://"))
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns("year"), path)

    source = open_table(catalog_in(tmp_path))

    assert dtypes_of(source)["year"] == "int32"
    assert sorted(read_all(source)["year"].tolist()) == [2024, 2025]


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 4))

    with pytest.raises(
        SpecError, match=r"read\.path: got shop\.nothing; expected a table of the cat"
    ):
        open_table(catalog_in(tmp_path), "shop.nothing")


def test_a_snapshot_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 4))

    with pytest.raises(
        SpecError, match=r"options\.snapshot: got 7; expected a snapshot that shop\.ro"
    ):
        open_table(catalog_in(tmp_path), snapshot=7)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    with open_catalog(catalog_in(tmp_path)) as catalog:
        catalog.create_table(TABLE, schema=table_rows(0, 1).schema)

    with pytest.raises(SpecError, match="expected a table with at least one row"):
        open_table(catalog_in(tmp_path))


def test_a_catalog_that_is_none_is_refused() -> None:
    with pytest.raises(
        SpecError,
        match=r"options\.catalog: got URI.*; expected a catalog with the table shop\.rows",
    ):
        open_table({"foo": "bar"})


def test_a_catalog_that_somebody_writes_is_asked_again(tmp_path: Path) -> None:
    write_iceberg(tmp_path, table_rows(0, 4))
    catalog = catalog_in(tmp_path)
    at_once = {**catalog, "uri": f"{catalog['uri']}?timeout=0"}
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("begin exclusive")
        with pytest.raises(InfrastructureError, match=r"read\.path: .*database is locked"):
            open_table(at_once)

        retry_policy = RetryPolicy(pauses=(1.0,), rest=lambda _: other.rollback())
        source = open_table(at_once, access=FileAccess(retry_policy))

    assert sorted(read_all(source)["id"].tolist()) == list(range(4))


@pytest.mark.s3
def test_a_table_in_a_bucket_is_read(in_bucket: Bucket, s3: S3Server, tmp_path: Path) -> None:
    properties = write_iceberg_into(in_bucket, s3, tmp_path, table_rows(0, 9))

    source = open_table(properties)

    assert source.rows == 9
    assert read_all(source)["id"].tolist() == list(range(9))
