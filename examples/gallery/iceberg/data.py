"""Makes an Iceberg table from Parquet files: `python data.py FLIGHTS`.

The catalog and the files of the table are written to the working directory.
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog


def make_table(flights: Path, warehouse: Path) -> None:
    """Make the table shop.flights of the columns that the run reads."""
    catalog = SqlCatalog("default", uri="sqlite:///catalog.db", warehouse=warehouse.as_uri())
    files = sorted(flights.glob("*.parquet"))
    columns = ["distance", "hour", "late"]
    rows = pa.concat_tables(pq.read_table(file, columns=columns) for file in files)
    catalog.create_namespace_if_not_exists("shop")
    if not catalog.table_exists("shop.flights"):
        catalog.create_table("shop.flights", schema=rows.schema).append(rows)


if __name__ == "__main__":
    make_table(Path(sys.argv[1]), Path.cwd() / "warehouse")
