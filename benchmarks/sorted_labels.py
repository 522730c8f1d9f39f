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
    """Train the sample of the README once with each mode, and print its last metrics."""
    sample = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))["spec"]
    for mode in MODES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_digits(Disk(folder))
            sort_by_label(folder / "digits" / "train")
            spec = copy.deepcopy(sample)
            dataset = spec["data"]["datasets"]["train"]
            del dataset["shuffle"]
            if mode:
                dataset["shuffle"] = {"mode": mode}
            run = trainingrun.train(folder, spec)
            print(f"{mode or 'default'}: {run.result['metrics']}", flush=True)
