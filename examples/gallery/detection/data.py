"""Writes shapes/, pictures with one to four squares and their boxes: `python data.py FOLDER`."""

import io
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SIZE = 32


def write_shapes(folder: Path, rows: int = 1000) -> None:
    """Write train/ and test/ with the columns `image` (PNG) and `boxes` (x, y, side of each)."""
    rng = np.random.default_rng(0)
    for part, count in (("train", rows), ("test", rows // 5)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        pictures, boxes = zip(*(draw(rng) for _ in range(count)), strict=True)
        table = pa.table({"image": list(pictures), "boxes": pa.array(boxes)})
        pq.write_table(table, folder / part / "a.parquet", row_group_size=200)


def draw(rng: np.random.Generator) -> tuple[bytes, list[list[float]]]:
    """Return a picture as PNG, and its boxes in pixels."""
    picture = rng.integers(0, 60, (SIZE, SIZE), dtype=np.uint8)
    boxes = []
    for _ in range(rng.integers(1, 5)):
        side = int(rng.integers(4, 9))
        x, y = rng.integers(0, SIZE - side, 2).tolist()
        picture[y : y + side, x : x + side] = 255
        boxes.append([float(x), float(y), float(side)])
    encoded = io.BytesIO()
    Image.fromarray(picture).save(encoded, "PNG")
    return encoded.getvalue(), boxes


if __name__ == "__main__":
    write_shapes(Path(sys.argv[1]) / "shapes")
