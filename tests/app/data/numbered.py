"""The same numbered rows in files of every format; `row_numbers` finds the numbers again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from pydantic import JsonValue

from tests.app.data.builders_formats import write_csv, write_json, write_npy, write_text
from tests.app.data.builders_media import write_film, write_sound
from tests.app.data.builders_records import write_records
from tests.app.data.builders_tables import (
    TABLE,
    catalog_in,
    write_delta,
    write_iceberg,
    write_lance,
)
from tests.app.data.builders_tar import write_tar


@dataclass(frozen=True)
class Format:
    """How so many rows from a first one on are written into a file.

    Args:
        write: file, first row, rows.
        suffix: of files.
        options: of `read`.
    """

    write: Callable[[Path, int, int], None]
    suffix: str
    options: tuple[tuple[str, JsonValue], ...] = ()


def write_parquet(path: Path, first: int, count: int) -> None:
    """Write rows in two row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ids_of(first, count), path, row_group_size=-(-count // 2))


def write_pictures(folder: Path, first: int, count: int) -> None:
    """Write a picture for each row, whose colour is its number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        picture = Image.new("RGB", (2, 2), (number % 256, number // 256, 0))
        picture.save(folder / f"{number:06}.png")


def write_tfrecords(path: Path, first: int, count: int) -> None:
    """Write an example for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_records(path, [{"id": number} for number in range(first, first + count)])


def write_shard(path: Path, first: int, count: int) -> None:
    """Write a tar file with a member for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tar(path, {f"{n:06}.id": b"%d" % n for n in range(first, first + count)})


def write_letters(folder: Path, first: int, count: int) -> None:
    """Write a file for each row that holds its number in digits."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (folder / f"{number:06}.bin").write_bytes(b"%d" % number)


def write_sounds(folder: Path, first: int, count: int) -> None:
    """Write a recording for each row, with as many samples more than one as its number says."""
    for number in range(first, first + count):
        write_sound(folder / f"{number:06}.wav", number + 1)


def write_frames(folder: Path, first: int, count: int) -> None:
    """Write a film with a frame for each row, whose name is the number of the first one."""
    write_film(folder / f"{first:06}.mp4", count, height=16, width=16)


def write_delta_version(path: Path, first: int, count: int) -> None:
    """Write rows as the next version of the Delta table in the path's folder."""
    write_delta(path.parent, ids_of(first, count))


def write_snapshot(path: Path, first: int, count: int) -> None:
    """Write rows as the next snapshot of the Iceberg table of the catalog in the path's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_iceberg(path.parent, ids_of(first, count))


def write_version(path: Path, first: int, count: int) -> None:
    """Write rows as the next version of the Lance table in the path's folder."""
    write_lance(path.parent, ids_of(first, count))


def ids_of(first: int, count: int) -> pa.Table:
    """Return rows of nothing but their numbers."""
    return pa.table({"id": np.arange(first, first + count, dtype=np.int64)})


FORMATS = {
    "parquet": Format(write_parquet, ".parquet"),
    "csv": Format(write_csv, ".csv"),
    "json": Format(write_json, ".jsonl"),
    "text": Format(write_text, ".txt"),
    "images": Format(write_pictures, "", (("labels", "none"),)),
    "binary": Format(write_letters, ""),
    "numpy": Format(write_npy, ".npy"),
    "tfrecords": Format(write_tfrecords, ".tfrecord"),
    "webdataset": Format(write_shard, ".tar"),
    "delta": Format(write_delta_version, ""),
    "iceberg": Format(write_snapshot, ""),
    "lance": Format(write_version, ""),
    "audio": Format(write_sounds, ""),
    "video": Format(write_frames, ""),
}


def read_of(form: str, folder: Path) -> dict[str, JsonValue]:
    """Return how the files of a folder are read, or the table that a catalog in it knows."""
    if form == "iceberg":
        catalog: JsonValue = {**catalog_in(folder)}
        return {"format": form, "path": TABLE, "options": {"catalog": catalog}}
    return {"format": form, "path": str(folder), "options": dict(FORMATS[form].options)}


def write_files(folder: Path, form: str, rows: int, files: int) -> Path:
    """Write as many files, of about as many rows each; return the folder."""
    for number in range(files):
        first, stop = rows * number // files, rows * (number + 1) // files
        path = folder / f"part-{number:03}{FORMATS[form].suffix}"
        FORMATS[form].write(path, first, stop - first)
    return folder
