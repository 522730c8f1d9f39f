"""Writes any number of rows in any format, with the transforms that decode them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from deltalake import WriterProperties, write_deltalake
from PIL import Image

from tests.app.data.builders_media import write_film, write_sound
from tests.app.data.builders_records import encode_example, frame_records
from tests.app.data.builders_tables import catalog_in, open_catalog
from tests.app.data.builders_tar import npy_of, write_tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from pydantic import JsonValue

FILES, NUMBERS, SIDE, LETTERS = 8, 1024, 64, 1000
# Rows in a row group, or in a file of a table without row groups.
GROUP_ROWS = 2048
# Bytes of a row in formats with one file for each row, as in a decoded image.
FILE_BYTES = 3 * SIDE * SIDE
# Columns of CSV and JSON files.
COLUMNS = 32
# Different rows of JSON, which are repeated: encoding them takes longer than reading them.
DISTINCT_ROWS = 4096


@dataclass(frozen=True)
class Kind:
    """A format.

    Args:
        write: takes a path and a number of rows; writes a file or a folder of files there, or
            appends to the table in the path's parent.
        row_bytes: size of a row in a batch.
        suffix: of a file name; empty for a folder.
        transforms: of the dataset.
        columns: to read; empty for all.
        options: of `read`.
        table: takes the folder; returns fields of `read` for a table in a catalog.
    """

    write: Callable[[Path, int], None]
    row_bytes: int
    suffix: str = ""
    transforms: tuple[JsonValue, ...] = ()
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, JsonValue], ...] = ()
    table: Callable[[Path], dict[str, JsonValue]] | None = None

    def fields(self, form: str, folder: Path) -> dict[str, JsonValue]:
        """Return the fields of a dataset in a folder."""
        read: JsonValue = {
            "format": form,
            "path": str(folder),
            "columns": list(self.columns),
            "options": dict(self.options),
            **(self.table(folder) if self.table else {}),
        }
        return {
            "read": read,
            "shuffle": {"mode": "blocks"},
            "transforms": list(self.transforms),
            "feed": {"lastBatch": "keep"},
        }


def write_rows(folder: Path, form: str, num_bytes: int) -> int:
    """Write rows that have `num_bytes` in batches; return their number."""
    kind = KINDS[form]
    rows = num_bytes // kind.row_bytes // FILES
    folder.mkdir(parents=True)
    for number in range(FILES):
        kind.write(folder / f"part-{number}{kind.suffix}", rows)
    return rows * FILES


def letters(batch: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return strings of one length as numbers, shape (rows, letters)."""
    lines = [np.frombuffer(str(line).encode("ascii"), dtype=np.uint8) for line in batch["text"]]
    return {"letters": np.stack(lines)}


def numbers(batch: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return files of one length as numbers, shape (rows, bytes)."""
    return {"numbers": np.stack([np.frombuffer(each, np.uint8) for each in batch["bytes"]])}


def _parquet(path: Path, rows: int) -> None:
    with pa.parquet.ParquetWriter(path, pa.schema([("x", pa.list_(pa.float32(), NUMBERS))])) as to:
        for start in range(0, rows, GROUP_ROWS):
            to.write_table(_table(min(GROUP_ROWS, rows - start)))


def _delta(path: Path, rows: int) -> None:
    groups = WriterProperties(max_row_group_size=GROUP_ROWS)
    write_deltalake(path.parent, _table(rows), mode="append", writer_properties=groups)


def _lance(path: Path, rows: int) -> None:
    lance.write_dataset(_table(rows), path.parent, mode="append", max_rows_per_file=GROUP_ROWS)


def _iceberg(path: Path, rows: int) -> None:
    values = _table(rows).cast(pa.schema([("x", pa.list_(pa.float32()))]))
    groups = {"write.parquet.row-group-limit": str(GROUP_ROWS)}
    with open_catalog(catalog_in(path.parent)) as catalog:
        table = catalog.create_table_if_not_exists("shop.rows", values.schema, properties=groups)
        table.append(values)


def _catalog_fields(folder: Path) -> dict[str, JsonValue]:
    return {"path": "shop.rows", "options": {"catalog": {**catalog_in(folder)}}}


def _numpy(path: Path, rows: int) -> None:
    np.save(path, _random(rows, NUMBERS))


def _csv(path: Path, rows: int) -> None:
    x = _random(rows, COLUMNS).astype(np.float64)
    columns = {f"x{number}": x[:, number] for number in range(COLUMNS)}
    pa.csv.write_csv(pa.table(columns), path)


def _json(path: Path, rows: int) -> None:
    names = [f"x{number}" for number in range(COLUMNS)]
    values = _random(DISTINCT_ROWS, COLUMNS).tolist()
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in values]
    with path.open("w", encoding="ascii") as to:
        for start in range(0, rows, DISTINCT_ROWS):
            to.writelines(lines[: rows - start])


def _text(path: Path, rows: int) -> None:
    text = np.random.default_rng(0).integers(97, 123, (rows, LETTERS + 1), dtype=np.uint8)
    text[:, -1] = ord("\n")
    path.write_bytes(text.tobytes())


def _images(folder: Path, rows: int) -> None:
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG")
    for number in range(rows):
        (folder / f"{number:06}.jpg").write_bytes(content.getvalue())


def _binary(folder: Path, rows: int) -> None:
    folder.mkdir()
    content = bytes(FILE_BYTES)
    for number in range(rows):
        (folder / f"{number:06}.bin").write_bytes(content)


def _audio(folder: Path, rows: int) -> None:
    folder.mkdir()
    write_sound(folder / "first.wav", FILE_BYTES // 4)
    content = (folder / "first.wav").read_bytes()
    for number in range(1, rows):
        (folder / f"{number:06}.wav").write_bytes(content)


def _video(path: Path, rows: int) -> None:
    write_film(path, rows, height=SIDE, width=SIDE)


def _tfrecords(path: Path, rows: int) -> None:
    frame_records(path, [encode_example({"x": _random(1, NUMBERS)[0].tolist()})] * rows)


def _webdataset(path: Path, rows: int) -> None:
    content = npy_of(_random(1, NUMBERS)[0])
    write_tar(path, {f"{number:06}.npy": content for number in range(rows)})


def _table(rows: int) -> pa.Table:
    """Return a table of one column `x` of lists."""
    x = pa.array(_random(rows, NUMBERS).ravel())
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(x, NUMBERS)})


def _random(rows: int, width: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32)


_DECODED: JsonValue = {
    "use": "trainshed.transforms:decode_image",
    "options": {"size": [SIDE, SIDE]},
}
KINDS = {
    "parquet": Kind(_parquet, 4 * NUMBERS, ".parquet"),
    "csv": Kind(_csv, 8 * COLUMNS, ".csv"),
    "json": Kind(_json, 8 * COLUMNS, ".jsonl"),
    "text": Kind(_text, LETTERS, ".txt", ({"use": f"{__name__}:letters"},)),
    "images": Kind(_images, FILE_BYTES, transforms=(_DECODED,), options=(("labels", "none"),)),
    "numpy": Kind(_numpy, 4 * NUMBERS, ".npy"),
    "tfrecords": Kind(_tfrecords, 4 * NUMBERS, ".tfrecord"),
    "webdataset": Kind(_webdataset, 4 * NUMBERS, ".tar", columns=("npy",)),
    "binary": Kind(
        _binary, FILE_BYTES, transforms=({"use": f"{__name__}:numbers"},), columns=("bytes",)
    ),
    "audio": Kind(
        _audio,
        FILE_BYTES,
        columns=("audio",),
        options=(("seconds", FILE_BYTES / 4 / 8000),),
    ),
    "video": Kind(_video, FILE_BYTES, ".mp4", columns=("frame",)),
    "delta": Kind(_delta, 4 * NUMBERS),
    "lance": Kind(_lance, 4 * NUMBERS),
    "iceberg": Kind(_iceberg, 4 * NUMBERS, table=_catalog_fields),
}
