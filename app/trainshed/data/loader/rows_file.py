"""Writes tables to a parquet file as they arrive: column types may become wider on the way.

The type of a column depends on a table's values: None alone has no type, and nullable integers
are floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from ray.data.block import Block


class RowsFile:
    """A file that is being written, with a row group for each table that has rows.

    Args:
        path: of the file.
        field: of the dataset, for errors.
    """

    def __init__(self, path: Path, field: str) -> None:
        self._path = path
        self._field = field
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0
        self.groups = 0

    def add(self, table: Block) -> None:
        """Write a table.

        Raises:
            DataError: naming a column that does not match the earlier ones, or parquet.
        """
        if not isinstance(table, pa.Table):  # Ray's fallback for values that Arrow lacks
            raise DataError(
                f"{self._field}.cache: got disk; expected another for values of any type"
            )
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        elif not (wider := self._unified(self._writer.schema, table.schema)).equals(
            self._writer.schema
        ):
            self._writer = self._widened(self._writer, wider)
        self._write(self._writer, table)
        self.rows += table.num_rows
        self.groups += bool(table.num_rows)

    def close(self) -> None:
        """Finish the file; without a table it has no column."""
        if self._writer is None:
            pq.write_table(pa.table({}), self._path)
        else:
            self._writer.close()

    def _widened(self, writer: pq.ParquetWriter, schema: pa.Schema) -> pq.ParquetWriter:
        """Write the existing rows again with wider types, one row group after the other."""
        writer.close()
        before = self._path.with_name(f"before-{self._path.name}")
        self._path.rename(before)
        again = pq.ParquetWriter(self._path, schema)
        with pq.ParquetFile(before) as written:
            for group in range(written.num_row_groups):
                self._write(again, written.read_row_group(group))
        before.unlink()
        return again

    def _write(self, writer: pq.ParquetWriter, table: pa.Table) -> None:
        columns = [self._cast(table.column(field.name), field) for field in writer.schema]
        made = pa.table(columns, schema=writer.schema)
        writer.write_table(made, row_group_size=max(1, table.num_rows))

    def _cast(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        if column.type.equals(field.type):
            return column
        try:
            return column.cast(field.type)
        except pa.ArrowException as error:  # an integer that float cannot represent
            raise self._refused(field.name, f"{column.type} in some rows: {error}") from error

    def _unified(self, known: pa.Schema, new: pa.Schema) -> pa.Schema:
        """Return the columns with types that hold the values of both."""
        if lacking := sorted(set(known.names) ^ set(new.names)):
            raise self._refused(lacking[0], "values in some rows alone")
        return pa.schema([self._wider(field, new.field(field.name)) for field in known])

    def _wider(self, known: pa.Field, new: pa.Field) -> pa.Field:
        if known.type.equals(new.type):
            return known
        both = (known.type, new.type)
        is_text, is_bytes = (
            any(small(kind) or large(kind) for kind in both)
            for small, large in (
                (pa.types.is_string, pa.types.is_large_string),
                (pa.types.is_binary, pa.types.is_large_binary),
            )
        )
        are_tensors = any(isinstance(kind, pa.BaseExtensionType) for kind in both)
        if not (are_tensors or (is_text and is_bytes)):
            try:
                schemas = [pa.schema([pa.field(known.name, kind)]) for kind in both]
                return pa.unify_schemas(schemas, promote_options="permissive").field(0)
            except pa.ArrowException:
                pass
        raise self._refused(known.name, f"{known.type} in some rows and {new.type} in others")

    def _refused(self, name: str, has: str) -> DataError:
        said = " ".join(has.split())
        return DataError(
            f"{self._field}.cache: got disk; expected another, or transforms that return one type "
            f"of a column: {name} has {said}"
        )
