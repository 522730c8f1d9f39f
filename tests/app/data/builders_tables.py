"""The only place where tables of Delta, Iceberg and Lance are born in these tests."""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap
from typing_extensions import override

from tests.app.data.builders_formats import FIELD, read_all
from tests.s3 import S3Server
from trainshed.data.sources.column_arrays import Columns
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.opener import store_options_of
from trainshed.storage.addresses import reached
from trainshed.storage.bucket import Bucket
from trainshed_api.rows import ReadSpec

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


# The name of every table of Iceberg.
TABLE = "shop.rows"


def table_rows(first: int, count: int) -> pa.Table:
    """Return rows: id (int64) counts from `first`, x (float64) is id / 8, part is a text."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": [number / 8 for number in numbers],
            "part": [f"p {number % 3}" for number in numbers],
        }
    )


def write_delta(
    where: Path | str,
    rows: pa.Table,
    *,
    partitions: Sequence[str] = (),
    overwrite: bool = False,
    configuration: Mapping[str, str | None] | None = None,
) -> None:
    """Write rows as the next version of a Delta table, behind those that it has."""
    write_deltalake(
        where,
        rows,
        mode="overwrite" if overwrite else "append",
        partition_by=list(partitions) or None,
        schema_mode="merge",
        configuration=dict(configuration or {}),
        storage_options={"allow_http": "true"},
    )


def delete_in_delta(folder: Path, rows: Sequence[int]) -> None:
    """Mark rows of the only file of a table of one version as deleted, as Spark does."""
    log = folder / "_delta_log"
    lines = (log / f"{0:020}.json").read_text().splitlines()
    [added] = [found["add"] for found in map(json.loads, lines) if "add" in found]
    # https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format
    vector = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(rows).serialize()
    vector += bytes(-len(vector) % 4)
    text = base64.b85encode(vector).translate(bytes.maketrans(_B85, _Z85)).decode()
    marked = {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }
    removed = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}
    actions = [{"remove": removed}, {"add": {**added, "deletionVector": marked}}]
    (log / f"{1:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def write_lance(where: Path | str, rows: pa.Table, *, overwrite: bool = False) -> None:
    """Write rows as the next version of a Lance table, in fragments of 100, behind those it has."""
    lance.write_dataset(
        rows,
        str(where),
        mode="overwrite" if overwrite else "append",
        max_rows_per_file=100,
        storage_options={"allow_http": "true"},
    )


def catalog_in(folder: Path) -> dict[str, str]:
    """Return the properties of a catalog that a folder holds, in SQLite."""
    return {
        "name": "tests",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}",
    }


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """Return a catalog that knows the namespace `shop`."""
    catalog = load_catalog(**properties)
    catalog.create_namespace_if_not_exists("shop")
    return catalog


def write_iceberg(
    folder: Path, rows: pa.Table, *, overwrite: bool = False, partitions: Sequence[str] = ()
) -> None:
    """Write rows as the next snapshot of the table `shop.rows`, behind those that it has.

    partitions: columns whose values files have for themselves from now on.
    """
    with open_catalog(catalog_in(folder)) as catalog:
        table = catalog.create_table_if_not_exists(TABLE, schema=rows.schema)
        with table.update_schema() as update:
            update.union_by_name(rows.schema)
        if partitions:
            with table.update_spec() as evolved:
                for name in partitions:
                    evolved.add_identity(name)
        (table.overwrite if overwrite else table.append)(rows)


def write_iceberg_into(at: Bucket, s3: S3Server, folder: Path, *parts: pa.Table) -> dict[str, str]:
    """Write a table into a bucket, a file for each part; return its catalog in a folder."""
    found = {**catalog_in(folder), "warehouse": str(at)}
    told = s3.environment
    writing = {
        "s3.endpoint": told["AWS_ENDPOINT_URL"],
        "s3.access-key-id": told["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": told["AWS_SECRET_ACCESS_KEY"],
        "s3.region": told["AWS_REGION"],
    }
    with open_catalog({**found, **writing}) as catalog:
        table = catalog.create_table(TABLE, schema=parts[0].schema)
        for part in parts:
            table.append(part)
    return found


def delete_in_iceberg(
    table: Table, path: str, rows: Sequence[int], partition: Record | None = None
) -> None:
    """Mark rows of a file as deleted, as engines do that merge on reading.

    partition: of the file, where the table has some.
    """
    where = f"{table.location()}/data/deletes.parquet"
    marks = pa.table({"file_path": [path] * len(rows), "pos": pa.array(rows, pa.int64())})
    fields = zip(marks.schema, ("2147483546", "2147483545"), strict=True)
    numbered = [field.with_metadata({"PARQUET:field_id": number}) for field, number in fields]
    local = Path(where.removeprefix("file://"))
    pq.write_table(marks.cast(pa.schema(numbered)), local)
    found = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=where,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=len(rows),
        file_size_in_bytes=local.stat().st_size,
    )
    found.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        deletes = _Deletes(Operation.APPEND, transaction, table.io)
        deletes.append_data_file(found)
        deletes.commit()


class _Deletes(_FastAppendFiles):
    """What pyiceberg itself does not write."""

    @override
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        output = self.new_manifest_output()
        return _DeleteManifest(spec, self.schema(), output, self.snapshot_id, "deflate")


class _DeleteManifest(ManifestWriterV2):
    @override
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    @override
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def read_from_its_own_store(
    form: str, at: Bucket, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Columns:
    """Return a table's rows where its dataset names its store, and the environment another one."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    read = ReadSpec.model_validate({"format": form, "path": str(at), "endpoint": s3.endpoint})
    return read_all(open_source(reached(at, store_options_of(read)), read, FIELD))
