"""Writes rows as parquet files that any reader handles well."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.sampler.function import most_asked
from trainshed.data.sources.column_arrays import nbytes, num_rows
from trainshed.data.sources.errors import DataError
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.reading import chunks, of_fragments, samples
from trainshed.inspect.shuffling import num_buckets, shuffled
from trainshed.inspect.to_arrow import schema_of, to_arrow, told_of, with_texts
from trainshed.storage.staged_folder import fill, is_free
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from trainshed.data.sampler.bad_records import Tell
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.fragment_reader import Reading
    from trainshed.inspect.inputs import RowInput
    from trainshed.storage.folder import Folder
    from trainshed.storage.staged_folder import StagedFolder

# A row group is the unit that a task reads and the shuffle of blocks moves.
GROUP_BYTES = 16 * 2**20
# Rows to decode and transform at once.
CHUNK_BYTES = 4 * 2**20
# Bytes of Ray Data's tables that are inspected for types before the first one is written.
MADE_TABLES = 8
# A fragment with more stored bytes is never held in memory whole.
MOST_WHOLE_BYTES = 64 * 2**20
# Bytes of fragments that other processes have read ahead.
AHEAD_BYTES = 2**30
# Dictionary-encoded types, for repeated values: not floats, and not bytes.
_REPEATED = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal)


@dataclass(frozen=True)
class WriteOptions:
    """Options of writing rows.

    Args:
        file_bytes: per file, as stored; may be exceeded by one row group.
        rows_per_file: maximum; None for any number.
        seed: to shuffle all rows; None to keep their order.
        processes: number of processes that read and transform.
    """

    file_bytes: int
    rows_per_file: int | None = None
    seed: int | None = None
    processes: int = 1


@dataclass(frozen=True)
class WriteSummary:
    """What was written."""

    rows: int
    files: int
    bytes: int


def write(
    given: RowInput | GeneratedRows,
    to: Folder,
    options: WriteOptions,
    told: Callable[[Fragment], None],
) -> WriteSummary:
    """Write all rows, after their transforms, into a folder that is new or empty.

    Args:
        given: the rows.
        to: the folder.
        options: options.
        told: called with each fragment that was read.

    Raises:
        SpecError: if the folder is not empty or not writable, or rows of Ray Data are to be
            shuffled.
        DataError: if rows cannot be read, transformed or stored, or there are none.
        InfrastructureError: if a storage does not return or accept them.
    """
    _check_writable(to)
    if not is_free(to):
        raise _taken(to)
    if isinstance(given, GeneratedRows):
        schema, made = _made_tables(given, options)
        return _written(to, schema, options, lambda _: made)
    pairs = samples(given)
    looked = [after for _, after in pairs if num_rows(after)] or [_first(given)]
    schema = with_texts(schema_of(looked, given.source.schema, as_read=not given.transforms))
    all_looked: int = sum(to_arrow(columns, schema).nbytes for columns in looked)
    row_bytes = max(1.0, all_looked / sum(num_rows(columns) for columns in looked))
    all_bytes = row_bytes * likely_rows(given, pairs)
    read_bytes = max((nbytes(read) / num_rows(read) for read, _ in pairs), default=1.0)
    # As many as a transform gets in training: with fewer it could make other rows.
    asked = most_asked(given.transforms)
    how = given.reading(max(asked, int(CHUNK_BYTES / max(row_bytes, read_bytes))))

    def make(aside: Path) -> Iterator[pa.Table]:
        tables = _tables(given, how, schema, all_bytes, options, told)
        if options.seed is None:
            return tables
        return shuffled(tables, options.seed, num_buckets(all_bytes), aside)

    return _written(to, schema, options, make)


def _written(
    to: Folder, schema: pa.Schema, options: WriteOptions, make: Callable[[Path], Iterable[pa.Table]]
) -> WriteSummary:
    """Write tables; make: returns them, called with an empty folder for temporary files."""
    try:
        with fill(to) as filling:
            files = _Files(filling, schema, options)
            for table in make(filling.aside):
                files.take(table)
            return files.end()
    except FileExistsError as error:
        raise _taken(to) from error


def _made_tables(
    given: GeneratedRows, options: WriteOptions
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the types of Ray Data's rows, from the first ones, and all rows."""
    if options.seed is not None:
        expected = (
            f"no value, as {given.maker} makes these rows: write them, then shuffle the files"
        )
        raise SpecError([Problem("--shuffle", str(options.seed), expected)])
    tables = given.tables(CHUNK_BYTES)
    looked = list(islice(tables, MADE_TABLES))
    if not looked:
        raise _nothing(given.field)
    types = told_of([each.types for each in looked if each.types is not None])
    # Arrow's conversion of nullable integers gave floats, and no transform changed them since.
    schema = with_texts(schema_of([each.columns for each in looked], types, as_read=True))
    return schema, (to_arrow(each.columns, schema) for each in chain(looked, tables))


def _check_writable(to: Folder) -> None:
    if to.path is None:
        return
    there = next(each for each in to.path.parents if each.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        expected = f"a folder below one that you may write to: {there} is none"
        raise SpecError([Problem("--to", str(to), expected)])


def _taken(to: Folder) -> SpecError:
    return SpecError([Problem("--to", str(to), "a new folder, or an empty one")])


def _first(given: RowInput) -> Columns:
    """Return the first rows that pass the transforms, if the sample had none."""
    how = given.reading(1024)
    for fragment in given.source.fragments:
        for columns in chunks(how, fragment, given.left_out):
            return columns
    raise _nothing(given.field)


def _nothing(field: str) -> DataError:
    return DataError(f"{field}: no rows, so that there is nothing to write")


def likely_rows(given: RowInput, pairs: Sequence[tuple[Columns, Columns]]) -> float:
    """Return the estimated number of rows after the transforms.

    Args:
        given: the rows.
        pairs: samples before and after the transforms.
    """
    before = sum(num_rows(read) for read, _ in pairs)
    after = sum(num_rows(made) for _, made in pairs)
    return given.source.about_rows * max(1, after) / max(1, before)


def _tables(  # noqa: PLR0913, PLR0917 - what is read, and by whom
    given: RowInput,
    how: Reading,
    schema: pa.Schema,
    all_bytes: float,
    options: WriteOptions,
    told: Callable[[Fragment], None],
) -> Iterator[pa.Table]:
    """Yield all rows in order."""
    fragments = given.source.fragments
    mean_bytes = max(1.0, all_bytes / len(fragments))
    ahead = max(1, min(2 * options.processes, int(AHEAD_BYTES / mean_bytes)))
    call = functools.partial(_whole, how, schema)
    read = of_fragments(given, call, fragments, options.processes, ahead)
    for fragment, made in zip(fragments, read, strict=True):
        if made is None:
            found = chunks(how, fragment, given.left_out)
            yield from (to_arrow(columns, schema) for columns in found)
        else:
            yield from made
        told(fragment)


def _whole(
    how: Reading, schema: pa.Schema, fragment: Fragment, tell: Tell | None
) -> list[pa.Table] | None:
    """Return the rows of a fragment; None if it is too large to hold."""
    if fragment.num_bytes > MOST_WHOLE_BYTES:
        return None
    return [to_arrow(columns, schema) for columns in chunks(how, fragment, tell)]


class _Files:
    """Splits rows into files and row groups, and passes on each complete file."""

    def __init__(self, filling: StagedFolder, schema: pa.Schema, options: WriteOptions) -> None:
        self._filling, self._schema, self._options = filling, schema, options
        self._repeated = [
            field.name for field in schema if any(fits(field.type) for fits in _REPEATED)
        ]
        self._group: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None
        self._rows_of_file = self._rows = self._files = self._bytes = 0

    def take(self, table: pa.Table) -> None:
        """Add the next rows."""
        while table.num_rows:
            most = self._options.rows_per_file or table.num_rows + self._rows_of_file
            rows_that_fit = max(1, int(table.num_rows * GROUP_BYTES / max(1, table.nbytes)))
            part = table.slice(0, min(rows_that_fit, most - self._rows_of_file))
            table = table.slice(part.num_rows)
            group_bytes = sum(each.nbytes for each in self._group)
            if self._group and group_bytes + part.nbytes > GROUP_BYTES:
                self._end_group()
            self._group.append(part)
            self._rows_of_file += part.num_rows
            if self._rows_of_file == self._options.rows_per_file:
                self._end_file()

    def end(self) -> WriteSummary:
        """Pass on the last file and return what was written."""
        self._end_file()
        return WriteSummary(self._rows, self._files, self._bytes)

    def _end_group(self) -> None:
        table = pa.concat_tables(self._group)
        self._group = []
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._file, self._schema, compression="zstd", use_dictionary=self._repeated
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        if self._file.stat().st_size >= self._options.file_bytes:
            self._end_file()

    def _end_file(self) -> None:
        if self._group:
            self._end_group()
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        self._bytes += self._file.stat().st_size
        self._filling.add(self._file)
        self._rows, self._rows_of_file = self._rows + self._rows_of_file, 0
        self._files += 1

    @property
    def _file(self) -> Path:
        return self._filling.aside / f"part-{self._files:05}.parquet"
