"""Real handwritten digits as parquet: the data of the quick start, present without a download.

1797 grey pictures of 8x8 pixels that come with scikit-learn (UCI's "Optical Recognition
of Handwritten Digits", test part), as PNG bytes `image` and the digit as int64 `label`.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from trainshed.storage.folder import UNDERWAY

if TYPE_CHECKING:
    from trainshed.storage.folder import Folder

# Rows and files of each part. Four files, so that two workers and more each have some to read.
PARTS = {"train": (1437, 4), "test": (360, 1)}
LAST = "test/part-0.parquet"
SPLIT_SEED = 0
# The pictures count ink from 0 to 16.
MAX_INK = 16


def write_digits(folder: "Folder") -> dict[str, int]:
    """Write `digits/train/` and `digits/test/` under `folder`; return the rows of each.

    What was written before is left as it is. A folder appears complete or not at all.

    Raises:
        ValueError: when `folder`/digits holds something else.
    """
    target = folder / "digits"
    if UNDERWAY in target.names():
        target.remove(first=LAST)
    if not target.exists():
        with folder.aside("the digits") as draft:
            _write_parts(draft)
            written = folder.adopt(draft, target.name, last=LAST)
        if written != target:
            # Somebody else was faster; what they wrote is judged like any earlier folder.
            written.remove(first=LAST)
    counts = {part: _count_rows(target / part) for part in PARTS}
    expected = {part: rows for part, (rows, _) in PARTS.items()}
    if counts != expected:
        raise ValueError(
            f"{target} holds {counts} rows, the digits are {expected}: remove it or choose "
            "another folder"
        )
    return counts


def _write_parts(folder: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    pictures = np.round(digits.images * 255 / MAX_INK).astype(np.uint8)
    labels = digits.target.astype(np.int64)
    test = _choose_test_rows(labels, PARTS["test"][0])
    for part, chosen in (("train", ~test), ("test", test)):
        rows = np.random.default_rng(SPLIT_SEED).permutation(np.flatnonzero(chosen))
        (folder / part).mkdir()
        for number, share in enumerate(np.array_split(rows, PARTS[part][1])):
            table = pa.table(
                {
                    "image": pa.array([_encode(picture) for picture in pictures[share]]),
                    "label": pa.array(labels[share]),
                }
            )
            pq.write_table(table, folder / part / f"part-{number}.parquet")


def _choose_test_rows(labels: NDArray[np.int64], num_test: int) -> NDArray[np.bool_]:
    """Return which rows are held out, (rows,): of each digit the same share."""
    generator = np.random.default_rng(SPLIT_SEED)
    order = generator.permutation(len(labels))
    # Rows grouped by digit, at random within a digit; every so-many-th of them is held out.
    grouped = order[np.argsort(labels[order], kind="stable")]
    held_out = np.zeros(len(labels), dtype=np.bool_)
    held_out[grouped[np.arange(num_test) * len(labels) // num_test]] = True
    return held_out


def _encode(picture: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG")
    return buffer.getvalue()


def _count_rows(folder: "Folder") -> int:
    files = (folder.read(name) for name in folder.names() if name.endswith(".parquet"))
    return sum(pq.read_metadata(io.BytesIO(file)).num_rows for file in files)
