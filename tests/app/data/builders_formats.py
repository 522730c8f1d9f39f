"""The only place where files of formats other than parquet are born in these tests.

All hold the same rows: id (int64) counts from 0, x (float64) is id / 8, name (text).
"""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from PIL import Image
from pydantic import JsonValue

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.file_tables import FragmentTable, Source
from trainshed.data.sources.column_arrays import Columns, join
from trainshed.data.sources.dataset_files import open_source, read_fragment, read_records
from trainshed.storage.disk import Disk
from trainshed_api.rows import ReadSpec

FIELD = "spec.data.datasets.train.read"
NAMES = ("one", "two, with a comma", 'three "quoted"', "vier mit \u00e4")


def rows_of(first: int, count: int) -> list[dict[str, object]]:
    """Return rows as dicts."""
    return [
        {"id": number, "x": number / 8, "name": NAMES[number % len(NAMES)]}
        for number in range(first, first + count)
    ]


def write_csv(path: Path, first: int, count: int, *, header: bool = True) -> None:
    """Write rows as comma-separated values; packed where the name ends so."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "x", "name"], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows_of(first, count))
    _write(path, text.getvalue())


def write_json(path: Path, first: int, count: int) -> None:
    """Write rows as an object a line, or as one list where the name ends so."""
    rows = rows_of(first, count)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    _write(path, json.dumps(rows) if path.suffix == ".json" else lines)


def write_text(path: Path, first: int, count: int) -> None:
    """Write a line for each row."""
    _write(path, "".join(f"line {number} \u00e4\n" for number in range(first, first + count)))


def write_npy(path: Path, first: int, count: int) -> None:
    """Write an array of shape (count, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.arange(3 * first, 3 * (first + count), dtype=np.float32).reshape(-1, 3))


def write_pictures(folder: Path, counts: dict[str, int], size: int = 8) -> None:
    """Write so many pictures into a folder for each class."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            picture = Image.new("RGB", (size, size), (number % 256, len(name), 0))
            picture.save(folder / name / f"{number:04}.png")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def open_files(
    folder: Path,
    form: str,
    options: Mapping[str, JsonValue] = MappingProxyType({}),
    columns: Sequence[str] = (),
    *,
    skips_bad: bool = False,
    holdout: JsonValue = None,
) -> Source:
    """Return what is known of the files of a folder."""
    read: JsonValue = {
        "format": form,
        "path": str(folder),
        "options": dict(options),
        "holdout": holdout,
    }
    spec = ReadSpec.model_validate(read).model_copy(update={"columns": tuple(columns)})
    return open_source(Disk(folder), spec, FIELD, skips_bad=skips_bad)


def as_if_listed_so(source: Source) -> Source:
    """Return a dataset whose files may be damaged after it was opened, as if before."""
    return replace(source, fragments=FragmentTable.of(list(source.fragments)))


def read_all(source: Source, columns: Sequence[str] = (), chunk_rows: int = 7) -> Columns:
    """Return all rows of a dataset."""
    return join(
        [
            table
            for fragment in source.fragments
            for table in read_fragment(source.scan, fragment, columns, chunk_rows)
        ]
    )


def dtypes_of(source: Source, columns: Sequence[str] = (), chunk_rows: int = 1) -> dict[str, str]:
    """Return the type of each column, those of all tables that are read where they differ."""
    found: dict[str, set[str]] = {}
    for fragment in source.fragments:
        for table in read_fragment(source.scan, fragment, columns, chunk_rows):
            for name, array in table.items():
                found.setdefault(name, set()).add(str(array.dtype))
    return {name: " or ".join(sorted(types)) for name, types in found.items()}


def read_good(
    source: Source, columns: Sequence[str] = (), chunk_rows: int = 7
) -> tuple[Columns, list[BadRecord]]:
    """Return the good rows of a dataset, and its bad records."""
    found = [
        each
        for fragment in source.fragments
        for each in read_records(source.scan, fragment, columns, chunk_rows)
    ]
    good = [each for each in found if not isinstance(each, BadRecord)]
    assert all(len(array) <= chunk_rows for table in good for array in table.values())
    return join(good) if good else {}, [each for each in found if isinstance(each, BadRecord)]
