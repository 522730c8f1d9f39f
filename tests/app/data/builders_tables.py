"""The only place where tables of Delta are born in these tests, as deltalake writes them."""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyroaring import BitMap

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


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
