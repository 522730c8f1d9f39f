"""Tables that packages ship, as parquet files to train and to score on."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, make_regression

FILES = 3


def write_breast_cancer(home: Path) -> None:
    """Write 400 of 569 rows of 30 features to train on, and the others; `kind` is a text."""
    data = load_breast_cancer()
    columns: dict[str, NDArray[np.generic]] = {
        str(name).replace(" ", "_"): data.data[:, place].astype(np.float32)
        for place, name in enumerate(data.feature_names)
    }
    columns["kind"] = data.target_names[data.target].astype(str)
    _write(home, columns, 400)


def write_digits_table(home: Path) -> None:
    """Write 1,300 of 1,797 rows of 64 pixels to train on, and the others."""
    data = load_digits()
    pixels = data.data.astype(np.float32)
    columns = {f"p{place:02}": pixels[:, place] for place in range(64)}
    _write(home, {**columns, "label": data.target.astype(np.int64)}, 1300)


def write_regression(home: Path, rows: int = 2000) -> None:
    """Write three of four rows of ten features to train on, of which five count, and the others."""
    x_BF, y_B = make_regression(rows, 10, n_informative=5, noise=1.0, random_state=0)
    columns = {f"x{place}": x_BF[:, place].astype(np.float32) for place in range(10)}
    _write(home, {**columns, "y": y_B.astype(np.float32)}, rows * 3 // 4)


def _write(home: Path, columns: dict[str, NDArray[np.generic]], rows_to_train: int) -> None:
    rows = len(next(iter(columns.values())))
    order = np.random.default_rng(0).permutation(rows)
    for name, part in (("train", order[:rows_to_train]), ("valid", order[rows_to_train:])):
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, some in enumerate(np.array_split(part, FILES)):
            table = pa.table({column: values[some] for column, values in columns.items()})
            pq.write_table(table, folder / f"part-{number}.parquet")
