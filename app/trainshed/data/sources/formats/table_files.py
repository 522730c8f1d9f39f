"""Parquet files of a table, whose log names the files and their common columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.parquet import arrow_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.formats.format import FragmentRead


def read_row_groups(read: FragmentRead) -> Iterator[Columns]:
    """Yield the rows of a fragment with the columns and types of the table.

    A column that the file lacks has the fragment's constant, or no values: it was added to the
    table later.
    """
    fragment, scan, columns, chunk_rows, opened = read
    assert scan.schema
    wanted = [scan.schema.field(name) for name in columns or scan.schema.names]
    constants = dict(fragment.constants)
    stored = [field.name for field in wanted if field.name not in constants]
    for table in arrow_tables(fragment, stored, chunk_rows, opened):
        arrays = [_array(table, field, constants) for field in wanted]
        yield from_arrow(pa.table(arrays, schema=pa.schema(wanted)))


def _array(
    table: pa.Table, field: pa.Field, constants: dict[str, object]
) -> pa.Array | pa.ChunkedArray:
    if field.name in constants:
        value = pa.scalar(constants[field.name], field.type)
        return pa.repeat(value, table.num_rows)
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    return table.column(field.name).cast(field.type)
