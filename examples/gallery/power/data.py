"""Writes power/, the hourly load of eight meters: `python data.py FOLDER`."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOURS = 24 * 60


def write_power(folder: Path) -> None:
    """Write a file for each meter: `load` follows the hour of the day, `next` is an hour later."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for meter in range(8):
        hours = np.arange(HOURS + 1)
        daily = np.sin(2 * np.pi * (hours + 3 * meter) / 24)
        load = (1 + 0.1 * meter + 0.5 * daily + rng.normal(0, 0.05, len(hours))).astype(np.float32)
        columns = {"meter": np.full(HOURS, meter), "hour": hours[:-1]}
        table = pa.table({**columns, "load": load[:-1], "next": load[1:]})
        pq.write_table(table, folder / f"{meter}.parquet")


if __name__ == "__main__":
    write_power(Path(sys.argv[1]) / "power")
