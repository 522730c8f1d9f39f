"""Tables of numbers that tests train on."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(
    folder: Path, rows: int, files: int = 3, row_group_size: int = 30, width: int = 4
) -> Path:
    """Write parquet files with columns x (`width` floats), y (their sum) and row (its number)."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        x = generator.normal(size=(len(part), width)).astype(np.float32)
        table = pa.table(
            {
                "x": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), width),
                "y": pa.array(x.sum(axis=1)),
                "row": pa.array(part),
            }
        )
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return folder
