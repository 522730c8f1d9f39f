"""Files of each format, as a disk and a bucket hold them: the same rows on both."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from tests.app.data.builders_formats import (
    FIELD,
    read_all,
    write_csv,
    write_json,
    write_npy,
    write_pictures,
    write_text,
)
from tests.s3 import S3Server
from trainshed.data.read.columns import Columns
from trainshed.data.read.files import open_source
from trainshed.records.bucket import Bucket
from trainshed.records.disk import Disk
from trainshed_api.rows import ReadSpec


def write_parquet(path: Path, groups: int) -> None:
    """Write row groups of 1000 rows in five columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(0).random((5, 1000 * groups))
    table = pa.table({f"c{number}": column for number, column in enumerate(values)})
    pq.write_table(table, path, row_group_size=1000)


@dataclass(frozen=True)
class Files:
    """Files of a format, and what is said of them."""

    form: str
    write: Callable[[Path], None]
    options: dict[str, JsonValue]

    def spec(self, columns: tuple[str, ...] = ()) -> ReadSpec:
        """Return how they are read."""
        read: JsonValue = {"format": self.form, "path": "x", "options": self.options}
        return ReadSpec.model_validate(read).model_copy(update={"columns": columns})


FORMATS: dict[str, Files] = {
    "csv": Files("csv", lambda at: write_csv(at / "a.csv", 0, 3000), {}),
    "packed csv": Files("csv", lambda at: write_csv(at / "a.csv.gz", 0, 3000), {}),
    "csv read whole": Files(
        "csv", lambda at: write_csv(at / "a.csv", 0, 3000), {"multiline": True}
    ),
    "json": Files("json", lambda at: write_json(at / "a.jsonl", 0, 3000), {}),
    "json lists": Files("json", lambda at: write_json(at / "a.json", 0, 300), {"lines": False}),
    "text": Files("text", lambda at: write_text(at / "a.txt", 0, 3000), {}),
    "numpy": Files("numpy", lambda at: write_npy(at / "a.npy", 0, 3000), {}),
    "images": Files("images", lambda at: write_pictures(at, {"cat": 25, "dog": 15}), {}),
    "parquet": Files("parquet", lambda at: write_parquet(at / "a.parquet", 6), {}),
}


def files_behind(s3: S3Server, at: Bucket) -> Path:
    """Return where the server keeps the objects of a folder."""
    return s3.folder_of(at.root.partition("://")[2]) / at.key


def on_disk(folder: Path, files: Files) -> Columns:
    """Return the rows as a disk gives them."""
    return read_all(open_source(Disk(folder), files.spec(), FIELD))


def assert_same(found: Columns, want: Columns) -> None:
    """Hold all rows to be the same, in their order."""
    assert list(found) == list(want)
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array)
