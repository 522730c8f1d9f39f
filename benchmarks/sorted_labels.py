"""Accuracy on digits whose files are sorted by label, for each shuffle mode and for the default."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks import trainingrun
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk

SAMPLE = Path(__file__).parents[1] / "manifests" / "trainingrun.yaml"
FILES = 4
MODES = (None, "none", "global")


def sort_by_label(folder: Path) -> None:
    """Sort the rows of all files of a folder by label and write them to FILES files."""
    rows = pa.concat_tables(pq.read_table(file) for file in sorted(folder.iterdir()))
    rows = rows.sort_by("label")
    size = -(-rows.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(rows.slice(number * size, size), folder / f"part-{number}.parquet")


def main() -> None:
    """Train the sample of the README once with each mode, and print its last accuracy."""
    spec = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))["spec"]
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            write_digits(Disk(home))
            sort_by_label(home / "digits" / "train")
            asked = copy.deepcopy(spec)
            del asked["data"]["datasets"]["train"]["shuffle"]
            if mode:
                asked["data"]["datasets"]["train"]["shuffle"] = {"mode": mode}
            run = trainingrun.train(home, asked)
            print(f"{mode or 'default'}: {run.result['metrics']}", flush=True)


if __name__ == "__main__":
    main()
