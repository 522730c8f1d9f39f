"""Predictions on a disk: one part for each fragment, joined at the end.

A part gets its name when it is complete. A killed prediction continues with the parts that exist.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.sources.column_arrays import num_rows
from trainshed.inspect.to_arrow import schema_of, to_arrow, with_texts
from trainshed.inspect.values import as_json
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trainshed.data.sources.column_arrays import Columns

_IDENTITY = "identity"
# Rows of a row group, from which readers profit.
_GROUP_ROWS = 2**16


class PartFiles:
    """The parts of an output file.

    Args:
        file: the output, of which `.jsonl` or `.parquet` is the ending.
        identity: of model and rows; parts of others are discarded.
        schema: of the rows' files, if they have one.

    Raises:
        SpecError: if the file exists, has another ending or is written by another prediction, or
            if the path of the parts holds something else.
    """

    def __init__(self, file: Path, identity: str, schema: pa.Schema | None) -> None:
        self._file = file
        self._format = part_format(str(file), schema)
        self._folder = file.with_name(f"{file.name}.parts")
        self._check_new()
        if not self._holds_parts():
            expected = f"a name for which {self._folder} does not exist. Choose another one"
            raise SpecError([Problem("--output", str(file), expected)])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark = (self._folder / _IDENTITY).open("a+", encoding="ascii")
        try:
            self._lock()
            self._discard_others(identity)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another prediction continue."""
        self._mark.close()

    def _check_new(self) -> None:
        if self._file.exists():
            expected = "a new file. Delete it, or choose another name"
            raise SpecError([Problem("--output", str(self._file), expected)])

    def _holds_parts(self) -> bool:
        """Return whether the folder is missing, or one that a prediction wrote."""
        if not self._folder.exists():
            return True
        if not self._folder.is_dir():
            return False
        return (self._folder / _IDENTITY).is_file() or not any(self._folder.iterdir())

    def _lock(self) -> None:
        """Lock the parts until `close`, or until this process ends."""
        try:
            fcntl.flock(self._mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            expected = "a file that no other prediction writes. Wait for its end"
            raise SpecError([Problem("--output", str(self._file), expected)]) from None
        except OSError:  # a file system without locks, such as of a mounted bucket
            return
        self._check_new()  # another prediction may have ended before the lock

    def _discard_others(self, identity: str) -> None:
        self._mark.seek(0)
        if self._mark.read() == identity:
            return
        for part in self._folder.glob("part-*"):
            part.unlink()
        self._mark.truncate(0)
        self._mark.write(identity)
        self._mark.flush()

    def has(self, number: int) -> bool:
        """Return whether a part is complete."""
        return self._part(number).exists()

    def write(self, number: int, tables: Iterable[Columns]) -> int:
        """Write a part and return its rows."""
        aside = self._folder / "underway"
        rows = self._format.write(tables, aside)
        aside.rename(self._part(number))
        return rows

    def finish(self, count: int) -> None:
        """Join all parts into the output, and delete them."""
        aside = self._folder / "joined"
        self._format.join([self._part(number) for number in range(count)], aside)
        aside.rename(self._file)
        shutil.rmtree(self._folder)

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:06}"


class JsonLines:
    """One JSON object for each row."""

    def write(self, tables: Iterable[Columns], file: Path) -> int:
        """Write a part and return its rows."""
        rows = 0
        with file.open("w", encoding="utf-8") as opened:
            for table in tables:
                for row in rows_of(table):
                    opened.write(f"{json.dumps(as_json(row), ensure_ascii=False)}\n")
                    rows += 1
        return rows

    def join(self, parts: Sequence[Path], file: Path) -> None:
        """Write one file with the rows of all parts."""
        with file.open("wb") as joined:
            for part in parts:
                with part.open("rb") as opened:
                    shutil.copyfileobj(opened, joined)


class Parquet:
    """Parquet with the types of the first values of each part, joined with those of all parts.

    schema: of the rows' files, if they have one.
    """

    def __init__(self, schema: pa.Schema | None) -> None:
        self._source = schema

    def write(self, tables: Iterable[Columns], file: Path) -> int:
        """Write a part and return its rows."""
        schema: pa.Schema | None = None
        writer: pq.ParquetWriter | None = None
        rows = 0
        for group in _grouped(tables):
            wider = self._wider(schema, group)
            if writer is None or wider != schema:
                writer = _rewritten(writer, file, wider)
            schema = wider
            table = pa.concat_tables([to_arrow(each, schema) for each in group])
            writer.write_table(table)
            rows += table.num_rows
        if writer is None:  # no rows
            file.touch()
        else:
            writer.close()
        return rows

    def _wider(self, schema: pa.Schema | None, group: Sequence[Columns]) -> pa.Schema:
        """Return the schema of a part, with types for columns of which a group has first values."""
        if schema is None:
            return schema_of(group, self._source, as_read=True)
        lacking = {each.name for each in schema if pa.types.is_null(each.type)}
        if any(lacking - each.keys() for each in group):  # refused when the group is written
            return schema
        found = schema_of([{name: each[name] for name in lacking} for each in group], self._source)
        return pa.schema([found.field(f.name) if f.name in lacking else f for f in schema])

    def join(self, parts: Sequence[Path], file: Path) -> None:
        """Write one file with the rows of all parts, in types that hold the values of all."""
        filled = [part for part in parts if part.stat().st_size]
        schema = common_schema([pq.read_schema(part) for part in filled])
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for part in filled:
                for table in _row_groups(part):
                    writer.write_table(table.cast(schema))


def _rewritten(writer: pq.ParquetWriter | None, file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer of a file with a schema, after the rows that an earlier writer wrote."""
    earlier = file.with_name(f"{file.name}-earlier")
    if writer is not None:
        writer.close()
        file.rename(earlier)
    again = pq.ParquetWriter(file, schema, compression="zstd")
    if writer is not None:
        for table in _row_groups(earlier):
            again.write_table(table.cast(schema))
        earlier.unlink()
    return again


def _grouped(tables: Iterable[Columns]) -> Iterator[list[Columns]]:
    """Yield the tables of each row group."""
    held: list[Columns] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += num_rows(table)
        if rows >= _GROUP_ROWS:
            yield held
            held, rows = [], 0
    if held:
        yield held


def rows_of(table: Columns) -> Iterator[Mapping[str, object]]:
    """Yield each row of a table as a mapping by column."""
    names = list(table)
    for values in zip(*table.values(), strict=True):
        yield dict(zip(names, values, strict=True))


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return types that hold the values of all parts."""
    return with_texts(pa.unify_schemas(schemas, promote_options="permissive"))


def part_format(output: str, schema: pa.Schema | None) -> JsonLines | Parquet:
    """Return the format that the ending of an output names.

    Raises:
        SpecError: if it is another ending.
    """
    if output.endswith(".jsonl"):
        return JsonLines()
    if output.endswith(".parquet"):
        return Parquet(schema)
    raise SpecError([Problem("--output", output, "a name that ends with .jsonl or .parquet")])


def _row_groups(part: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(part) as opened:
        for number in range(opened.num_row_groups):
            yield opened.read_row_group(number)
