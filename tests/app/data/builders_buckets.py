"""Files of each format, as a disk and a bucket hold them: the same rows on both."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from tests.app.data import numbered
from tests.app.data.builders_formats import (
    FIELD,
    read_all,
    write_csv,
    write_json,
    write_npy,
    write_text,
)
from tests.app.data.builders_tables import table_rows, write_delta, write_lance
from tests.s3 import S3Server
from trainshed.data.sources.column_arrays import Columns
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed_api.rows import ReadSpec


def write_parquet(path: Path, groups: int) -> None:
    """Write row groups of 1000 rows in five columns: their numbers, and four by chance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(0).random((4, 1000 * groups))
    columns = {f"c{number}": column for number, column in enumerate(values, start=1)}
    table = pa.table({"id": np.arange(1000 * groups, dtype=np.int64), **columns})
    pq.write_table(table, path, row_group_size=1000)


def write_animals(folder: Path) -> None:
    """Write pictures of two classes."""
    numbered.write_pictures(folder / "cat", 0, 25)
    numbered.write_pictures(folder / "dog", 25, 15)


def write_parts(write: Callable[[Path, pa.Table], None], folder: Path) -> None:
    """Write a table of 600 rows in three versions."""
    for first, count in ((0, 300), (300, 200), (500, 100)):
        write(folder, table_rows(first, count))


@dataclass(frozen=True)
class Files:
    """Files of a format, and what is said of them.

    Args:
        form: the format.
        rows: that are written, numbered from 0 on.
        write: into a folder.
        options: of `read`.
    """

    form: str
    rows: int
    write: Callable[[Path], None]
    options: dict[str, JsonValue] = field(default_factory=dict)

    def spec(self, columns: tuple[str, ...] = ()) -> ReadSpec:
        """Return how they are read."""
        read: JsonValue = {"format": self.form, "path": "x", "options": self.options}
        return ReadSpec.model_validate(read).model_copy(update={"columns": columns})


FORMATS: dict[str, Files] = {
    "csv": Files("csv", 3000, lambda at: write_csv(at / "a.csv", 0, 3000)),
    "packed csv": Files("csv", 3000, lambda at: write_csv(at / "a.csv.gz", 0, 3000)),
    "csv read whole": Files(
        "csv", 3000, lambda at: write_csv(at / "a.csv", 0, 3000), {"multiline": True}
    ),
    "json": Files("json", 3000, lambda at: write_json(at / "a.jsonl", 0, 3000)),
    "json lists": Files(
        "json", 300, lambda at: write_json(at / "a.json", 0, 300), {"lines": False}
    ),
    "text": Files("text", 3000, lambda at: write_text(at / "a.txt", 0, 3000)),
    "numpy": Files("numpy", 3000, lambda at: write_npy(at / "a.npy", 0, 3000)),
    "images": Files("images", 40, write_animals),
    "binary": Files("binary", 40, lambda at: numbered.write_letters(at, 0, 40)),
    "audio": Files("audio", 40, lambda at: numbered.write_sounds(at, 0, 40)),
    "video": Files("video", 100, lambda at: numbered.write_frames(at, 0, 100)),
    "tfrecords": Files(
        "tfrecords", 3000, lambda at: numbered.write_tfrecords(at / "a.tfrecord", 0, 3000)
    ),
    "packed tfrecords": Files(
        "tfrecords", 3000, lambda at: numbered.write_tfrecords(at / "a.tfrecord.gz", 0, 3000)
    ),
    "webdataset": Files("webdataset", 100, lambda at: numbered.write_shard(at / "a.tar", 0, 100)),
    "packed webdataset": Files(
        "webdataset", 100, lambda at: numbered.write_shard(at / "a.tar.gz", 0, 100)
    ),
    "parquet": Files("parquet", 6000, lambda at: write_parquet(at / "a.parquet", 6)),
}
# Whose files are not looked for by their endings, but in a log.
TABLES: dict[str, Files] = {
    "delta": Files("delta", 600, lambda at: write_parts(write_delta, at)),
    "lance": Files("lance", 600, lambda at: write_parts(write_lance, at)),
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
        if array.dtype == np.object_ and isinstance(array[0], np.ndarray):
            for one, other in zip(found[name], array, strict=True):
                np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_array_equal(found[name], array)
