"""As many rows as are asked for in files of any format, and the transforms that they need."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from pydantic import JsonValue

FILES, NUMBERS, SIDE, LETTERS = 8, 1024, 64, 1000
# Of csv and JSON, each in a column of its own.
COLUMNS = 32
# Of JSON, again and again: to make them costs more than to read them.
DRAWN_ROWS = 4096


@dataclass(frozen=True)
class Kind:
    """A format.

    Args:
        write: path, rows -> writes a file, or a folder of files.
        row_bytes: of a row as ranks get it.
        transforms: of the dataset.
        options: of `read`.
        suffix: of a file; none for a folder.
    """

    write: Callable[[Path, int], None]
    row_bytes: int
    suffix: str = ""
    transforms: tuple[JsonValue, ...] = ()
    options: tuple[tuple[str, JsonValue], ...] = ()


def write_rows(folder: Path, form: str, num_bytes: int) -> int:
    """Write so many bytes of rows, as ranks get them; return how many rows these are."""
    kind = KINDS[form]
    rows = num_bytes // kind.row_bytes // FILES
    folder.mkdir(parents=True)
    for number in range(FILES):
        kind.write(folder / f"part-{number}{kind.suffix}", rows)
    return rows * FILES


def letters(batch: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return texts of one length as numbers, shape (rows, letters)."""
    lines = [np.frombuffer(str(line).encode("ascii"), dtype=np.uint8) for line in batch["text"]]
    return {"letters": np.stack(lines)}


def _parquet(path: Path, rows: int) -> None:
    with pa.parquet.ParquetWriter(path, pa.schema([("x", pa.list_(pa.float32(), NUMBERS))])) as to:
        for start in range(0, rows, 2048):
            x = _random(min(2048, rows - start), NUMBERS)
            table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), NUMBERS)})
            to.write_table(table)


def _numpy(path: Path, rows: int) -> None:
    np.save(path, _random(rows, NUMBERS))


def _csv(path: Path, rows: int) -> None:
    x = _random(rows, COLUMNS).astype(np.float64)
    columns = {f"x{number}": x[:, number] for number in range(COLUMNS)}
    pa.csv.write_csv(pa.table(columns), path)


def _json(path: Path, rows: int) -> None:
    names = [f"x{number}" for number in range(COLUMNS)]
    drawn = _random(DRAWN_ROWS, COLUMNS).tolist()
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in drawn]
    with path.open("w", encoding="ascii") as to:
        for start in range(0, rows, DRAWN_ROWS):
            to.writelines(lines[: rows - start])


def _text(path: Path, rows: int) -> None:
    drawn = np.random.default_rng(0).integers(97, 123, (rows, LETTERS + 1), dtype=np.uint8)
    drawn[:, -1] = ord("\n")
    path.write_bytes(drawn.tobytes())


def _images(folder: Path, rows: int) -> None:
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG")
    for number in range(rows):
        (folder / f"{number:06}.jpg").write_bytes(content.getvalue())


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
    "images": Kind(_images, 3 * SIDE * SIDE, "", (_DECODED,), (("labels", "none"),)),
    "numpy": Kind(_numpy, 4 * NUMBERS, ".npy"),
}
