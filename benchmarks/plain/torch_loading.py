"""Measures epochs of torch's DataLoader with several numbers of workers.

Tables are an iterable dataset whose workers split the files: pyarrow reads a whole file, which is
cut into batches. Images are a map-style dataset of paths, which Pillow decodes one by one. Workers
persist over epochs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from benchmarks.plain.case import SIZE, Case, work
from benchmarks.plain.clock import EpochClock

Batch = dict[str, NDArray[np.generic]]


class Tables(IterableDataset[Batch]):
    """Batches of the rows of table files.

    Args:
        case: files and the work on their rows.
    """

    def __init__(self, case: Case) -> None:
        self._case = case

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of this worker's files."""
        info = get_worker_info()
        files = self._case.files[info.id :: info.num_workers] if info else self._case.files
        for file in files:
            x, y = self._read(file)
            for first in range(0, len(y), self._case.batch_size):
                batch = slice(first, first + self._case.batch_size)
                yield {"x": work(x[batch], self._case.rounds), "y": y[batch]}

    def _read(self, file: str) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """Return features (rows, features) float32 and labels (rows,) of a file."""
        if self._case.format == "parquet":
            table = pyarrow.parquet.read_table(file)
            flat = table["x"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            return flat.reshape(len(table), -1), labels(table)
        table = pyarrow.csv.read_csv(file)
        names = [name for name in table.column_names if name != "y"]
        columns = [table[name].to_numpy() for name in names]
        return np.stack(columns, axis=1, dtype=np.float32, casting="same_kind"), labels(table)


class Pictures(Dataset[Mapping[str, Any]]):
    """Images of one size, each with the number of its folder as label.

    Args:
        case: files and the work on their images.
    """

    def __init__(self, case: Case) -> None:
        self._files = case.files
        self._rounds = case.rounds
        folders = sorted({Path(file).parent for file in self._files})
        self._labels = {folder: number for number, folder in enumerate(folders)}

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._files)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return an image (224, 224, 3) of uint8, and its label."""
        file = self._files[index]
        with Image.open(file) as opened:
            small = opened.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        image = work(np.asarray(small), self._rounds)
        return {"image": image, "label": self._labels[Path(file).parent]}


def labels(table: pa.Table) -> NDArray[np.generic]:
    """Return labels (rows,), copied because the memory of Arrow is read-only."""
    values: NDArray[np.generic] = table["y"].to_numpy().copy()
    return values


def loader(case: Case, workers: int) -> DataLoader[Any]:
    """Return a DataLoader for a case."""
    persistent = workers > 0
    if case.format == "jpeg":
        return DataLoader(
            Pictures(case), case.batch_size, num_workers=workers, persistent_workers=persistent
        )
    return DataLoader(Tables(case), None, num_workers=workers, persistent_workers=persistent)


def epochs(case: Case, workers: int, count: int) -> list[dict[str, float]]:
    """Iterate over `count` epochs; return their times."""
    clock, batches = EpochClock(), loader(case, workers)
    for _ in range(count):
        for _ in clock.batches(batches):
            pass
    return clock.epochs


def main(
    *, cases: list[dict[str, Any]], num_epochs: int, workers: list[int]
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Measure each case with each number of workers, after an epoch that imports everything."""
    torch.set_num_threads(1)
    loaded = [Case(**fields) for fields in cases]
    epochs(loaded[0], 0, 1)
    return {
        case.name: {str(count): epochs(case, count, num_epochs) for count in workers}
        for case in loaded
    }
