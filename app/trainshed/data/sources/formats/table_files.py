"""Parquet files of a table, whose log names the files and their common columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.parquet import arrow_tables
from trainshed.data.sources.unified_schema import conformed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    schema = pa.schema(wanted)
    for table in arrow_tables(fragment, stored, chunk_rows, opened):
        found = conformed(_with_constants(table, schema, constants), schema, fragment.path)
        yield from_arrow(pa.table(found.columns, schema=schema))


def _with_constants(
    table: pa.Table, schema: pa.Schema, constants: Mapping[str, object]
) -> pa.Table:
    for name in constants.keys() & set(schema.names):
        value = pa.scalar(constants[name], schema.field(name).type)
        table = table.append_column(schema.field(name), pa.repeat(value, table.num_rows))
    return table
