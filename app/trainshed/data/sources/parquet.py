"""Splits parquet files into fragments with row counts, and reads them."""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from array import array
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.sampler.file_tables import FileTable, FragmentTable, Source, packed
from trainshed.data.sampler.fragments import File, Fragment, Scan
from trainshed.data.sources.arrow_columns import becomes_floats, from_arrow
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.data.sources.filters import may_meet
from trainshed.data.sources.opener import ACCESS
from trainshed.data.sources.read_retry import ReadRetrier, spans_of
from trainshed.data.sources.unified_schema import (
    FileSchema,
    check_fits,
    conformed,
    conforms,
    inspected_file,
    refuse_twins,
    unified_schema,
)
from trainshed.failures import InfrastructureError, is_passing
from trainshed.storage.addresses import is_remote
from trainshed_api.errors import Problem, SpecError, one_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found, Listing
    from trainshed.data.sources.opener import FileAccess, Opener
    from trainshed.storage.byte_ranges import Span
    from trainshed_api.where import Condition

# Neighbouring row groups of a file form a fragment up to this size: the unit of the shuffle of
# blocks, and large enough that reading it takes longer than opening it.
FRAGMENT_BYTES = 16 * 2**20
FOOTERS_AT_ONCE = 16
# Footers in memory: one takes some 10 kB, and more with many columns.
FOOTERS_AHEAD = 1024
# Spark and Impala wrote times in this type for long. Arrow converts them to nanoseconds, which
# reach from 1677 to 2262, and silently wraps all other times.
_INT96, _INT96_UNIT = "INT96", "us"
SUFFIX = ".parquet"
_TWINS = "Rename one of them, or leave them out by read.columns"
_REMEDY = "Leave the column out by read.columns, or write it with one type in all files"


def open_source(  # noqa: PLR0913 - files, and what of them is read
    files: Listing,
    root: str,
    columns: Sequence[str],
    field: str,
    access: FileAccess = ACCESS,
    *,
    asked: Sequence[str] = (),
    where: Condition | None = None,
    where_name: str = "where",
) -> Source:
    """Read the footers of all files.

    Args:
        files: to read.
        root: their folder, or the only file.
        columns: that must exist; empty for all.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
        access: to the storage.
        asked: columns that decide which rows are read.
        where: fragments without a matching row are left out.
        where_name: the field below `field` that has this condition.

    Raises:
        InfrastructureError: if the storage does not return a footer.
        SpecError: if a column is missing, a file is not parquet, or a column has no common type.
    """
    footers: Iterable[pq.FileMetaData] = read_footers(files, field, access)
    if where is not None:  # whose literals have the types of all files
        footers = held = list(footers)
    facts, digest, rows, groups = ColumnFacts(columns), hashlib.sha256(), array("q"), array("q")

    def fragments_of_all() -> Iterator[Fragment]:
        for number, (file, footer) in enumerate(zip(files, footers, strict=True)):
            facts.add(file.where, footer)
            described = describe(file, footer)
            rows.append(footer.num_rows)
            groups.append(described.groups)
            name = file.name.rpartition("/")[2]
            digest.update(f"{name} {file.bytes} {footer.num_rows}\n".encode())
            yield from cut(file.where, number, footer)

    if where is None:
        fragments = FragmentTable(fragments_of_all(), files.paths, files.versions)
    else:
        made = list(fragments_of_all())
    schemas = facts.schemas()
    schema = checked_schema(schemas, columns, asked, field)
    if where is not None:
        met = (each for each in made if _may_meet(where, each, held[each.file], schema))
        fragments = FragmentTable(met, files.paths, files.versions)
    if not fragments:
        if where:
            expected = "a condition that at least one row of the files meets"
            raise SpecError([Problem(f"{field}.{where_name}", "no rows", expected)])
        raise SpecError([Problem(f"{field}.path", root, "files with at least one row")])
    floats = facts.with_missing(schema, access)
    integers = facts.beyond_floats(schema, floats)
    wanted = (*columns, *asked) if columns else columns
    is_alike = len(schemas) == 1 or all(conforms(each.schema, schema, wanted) for each in schemas)
    scan = Scan(
        root=root,
        schema=None if is_alike else schema,
        floats=tuple(sorted(floats - integers)),
        integers=tuple(sorted(integers)),
    )
    described = FileTable(files.names, files.num_bytes, packed(rows), packed(groups))
    return Source(fragments, described, schema, digest.hexdigest(), scan)


def checked_schema(
    schemas: Sequence[FileSchema], columns: Sequence[str], asked: Sequence[str], field: str
) -> pa.Schema:
    """Return the columns of all files, as `unified_schema` does.

    Args:
        schemas: of the files.
        columns: that must exist; empty for all.
        asked: columns that decide which rows are read.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.

    Raises:
        SpecError: if a column is missing, is there twice, or has no common type.
    """
    known = dict.fromkeys(name for each in schemas for name in each.schema.names)
    for column in columns:
        if column not in known:
            raise SpecError([Problem(f"{field}.columns", column, one_of(column, known))])
    wanted = (*columns, *asked) if columns else columns
    for each in schemas:
        refuse_twins(each, f"{field}.path", _TWINS, wanted)
    return unified_schema(schemas, f"{field}.path", _REMEDY, wanted)


@dataclass
class _Layout:
    """What footers with one schema have in common.

    Args:
        where: the first file.
        footer: of that file.
        schema: of the files, with the metadata of the first one.
        leaves: number and field of each column that may be read as floats.
        rows: of all of these files.
    """

    where: str
    footer: pq.FileMetaData
    schema: pa.Schema
    leaves: Sequence[tuple[int, pa.Field]]
    rows: int = 0


class ColumnFacts:
    """What footers say of the columns of files: footers are large, and one is held per schema.

    columns: to look at; empty for all.
    """

    def __init__(self, columns: Collection[str] = ()) -> None:
        self._columns = columns
        self._layouts: list[_Layout] = []
        self._lacking: set[str] = set()
        self._large: set[str] = set()
        self._untold: list[_Place] = []

    def add(self, where: str, footer: pq.FileMetaData) -> None:
        """Take the footer of a file; where: its path or address."""
        layout = self._layout(where, footer)
        layout.rows += footer.num_rows
        for group in range(footer.num_row_groups if layout.leaves else 0):
            columns = footer.row_group(group)
            for number, column in layout.leaves:
                name, told = column.name, columns.column(number).statistics
                if column.nullable and name not in self._lacking:
                    if told is None or not told.has_null_count:
                        self._untold.append(_Place(where, name, group))
                    elif told.null_count:
                        self._lacking.add(name)
                seeks = pa.types.is_int64(column.type) and name not in self._large
                if seeks and told is not None and told.has_min_max:
                    self._large |= {name} if max(-told.min, told.max) > MOST_EXACT else set()

    def _layout(self, where: str, footer: pq.FileMetaData) -> _Layout:
        for layout in self._layouts:
            # Much faster than to compare Arrow's schemas, whose types are in the metadata.
            other = layout.footer
            if footer.metadata == other.metadata and footer.schema.equals(other.schema):
                return layout
        schema = footer.schema.to_arrow_schema()
        for layout in self._layouts:  # metadata such as those of pandas differ in each file
            if schema.equals(layout.schema):
                return layout
        asked = (each for each in schema if not self._columns or each.name in self._columns)
        # Together with other files' a column may be one of integers or booleans.
        may_be = (becomes_floats, pa.types.is_null, pa.types.is_dictionary)
        columns = {each.name: each for each in asked if any(is_(each.type) for is_ in may_be)}
        paths = (footer.schema.column(number).path for number in range(footer.num_columns))
        leaves = [(number, columns[path]) for number, path in enumerate(paths) if path in columns]
        self._layouts.append(_Layout(where, footer, schema, leaves))
        return self._layouts[-1]

    def _filled(self) -> list[_Layout]:
        return [each for each in self._layouts if each.rows]

    def schemas(self) -> list[FileSchema]:
        """Return each schema of files with rows, or of all files if none has rows."""
        return [FileSchema(each.where, each.schema) for each in self._filled() or self._layouts]

    def with_missing(self, schema: pa.Schema, access: FileAccess = ACCESS) -> frozenset[str]:
        """Return nullable columns of integers and booleans that lack values.

        Footers mostly tell; otherwise a column is searched up to the first missing value.

        Args:
            schema: of all files; a file of a table may lack columns, which have no values there.
            access: to the storage.

        Raises:
            OSError: if the storage does not return what is searched.
        """
        asked = {
            each.name
            for each in schema
            if becomes_floats(each.type) and (not self._columns or each.name in self._columns)
        }
        found = asked & self._lacking
        for each in self._filled():
            found |= asked.difference(each.schema.names)

        def look(place: _Place) -> None:
            if place.column not in found and access.retry_policy.read(
                lambda: _lacks(place, access.opened)
            ):
                found.add(place.column)

        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            list(pool.map(look, (each for each in self._untold if each.column in asked)))
        return frozenset(found)

    def beyond_floats(self, schema: pa.Schema, names: frozenset[str]) -> frozenset[str]:
        """Return the int64 columns with values beyond 2**53.

        Args:
            schema: of all files.
            names: of the columns to check.
        """
        large = names & self._large
        return frozenset(name for name in large if pa.types.is_int64(schema.field(name).type))


class _Place(NamedTuple):
    """A column chunk whose footer does not count missing values."""

    path: str
    column: str
    group: int


def _lacks(place: _Place, opened: Opener) -> bool:
    """Return whether a column chunk lacks a value; damage is reported by the reader."""
    with opened(place.path) as raw, pq.ParquetFile(raw) as file:
        try:
            table = file.read_row_group(place.group, columns=[place.column], use_threads=False)
        except pa.ArrowException:
            return False
    return bool(table.column(0).null_count)


def read_fragment(
    fragment: Fragment,
    columns: Sequence[str],
    chunk_rows: int,
    access: FileAccess = ACCESS,
    schema: pa.Schema | None = None,
) -> Iterator[Columns]:
    """Yield the rows of a fragment in tables of `chunk_rows` rows; the last may be smaller.

    Args:
        fragment: to read.
        columns: to read; empty for all.
        chunk_rows: maximum rows of a table.
        access: to the storage.
        schema: of all files; None if each file has it.

    Raises:
        DataError: with file and row groups, if they cannot be decoded.
        InfrastructureError: with the same, if the storage does not return them.
    """
    retrier: ReadRetrier | None = None
    done = 0
    while True:
        try:
            chunks = _chunks(fragment, columns, chunk_rows, access.opened, schema)
            for chunk in islice(chunks, done, None):
                yield chunk
                done += 1
        except (OSError, pa.ArrowException) as error:
            retrier = retrier or ReadRetrier(fragment, access)
            retrier.take(error)
        else:
            return


def read_sample(
    fragment: Fragment,
    columns: Sequence[str],
    rows: int,
    access: FileAccess = ACCESS,
    schema: pa.Schema | None = None,
) -> Columns:
    """Return the first rows of a fragment, without reading a large row group whole.

    schema: of all files; None if each file has it.

    Raises:
        DataError: with file and row groups, if they cannot be decoded.
        InfrastructureError: with the same, if the storage does not return them.
    """
    groups, wanted = list(fragment.row_groups), list(columns) or None
    retrier: ReadRetrier | None = None
    while True:
        try:
            with (
                access.opened(fragment.path) as raw,
                pq.ParquetFile(
                    raw, pre_buffer=True, coerce_int96_timestamp_unit=_INT96_UNIT
                ) as file,
            ):
                _check_fits(fragment, file.metadata, columns, schema)
                batches = file.iter_batches(rows, row_groups=groups or None, columns=wanted)
                if (first := next(batches, None)) is None:
                    return {}
                table = pa.Table.from_batches([first])
                table = _as_shown(table, _int96(file.metadata), fragment.path)
                return from_arrow(_in_schema(table, columns, schema, fragment.path))
        except (OSError, pa.ArrowException) as error:
            retrier = retrier or ReadRetrier(fragment, access)
            retrier.take(error)


def _chunks(
    fragment: Fragment,
    columns: Sequence[str],
    chunk_rows: int,
    opened: Opener,
    schema: pa.Schema | None,
) -> Iterator[Columns]:
    wanted = list(columns) or None
    with _opened(fragment, wanted, opened) as file:
        _check_fits(fragment, file.metadata, columns, schema)
        times = _int96(file.metadata)
        for stored in _tables(file, fragment, wanted, chunk_rows):
            table = _as_shown(stored, times, fragment.path)
            yield from_arrow(_in_schema(table, columns, schema, fragment.path))


def _check_fits(
    fragment: Fragment, footer: pq.FileMetaData, columns: Sequence[str], schema: pa.Schema | None
) -> None:
    """Refuse a file with rows that differs from those from which planning took the types."""
    # Planning knows the row groups of each file whose footer it has read.
    if schema and not fragment.row_groups and footer.num_rows:
        check_fits(FileSchema(fragment.path, footer.schema.to_arrow_schema()), schema, columns)


def _in_schema(
    table: pa.Table, columns: Sequence[str], schema: pa.Schema | None, path: str
) -> pa.Table:
    """Return a table with the wanted columns as all files have them."""
    if schema is None:
        return table
    wanted = pa.schema([schema.field(name) for name in columns]) if columns else schema
    found = conformed(table, wanted, path)
    for field in wanted:
        if not field.nullable and found.column(field.name).null_count:
            raise DataError(
                f"{path}: column {field.name}: got a row without a value; expected one in each "
                "row, as in the files that planning inspected, such as "
                f"{inspected_file(schema, field.name)}. Leave such rows out by read.where: "
                f"{field.name} is not None, for which planning inspects all files, or the column "
                "by read.columns."
            )
    return found


def _int96(footer: pq.FileMetaData) -> list[pa.Field]:
    """Return the columns of INT96 times, with the types of the file's schema."""
    columns = (footer.schema.column(number) for number in range(footer.num_columns))
    paths = [column.path for column in columns if column.physical_type == _INT96]
    return [
        field
        for field in (footer.schema.to_arrow_schema() if paths else ())
        if any(path == field.name or path.startswith(f"{field.name}.") for path in paths)
    ]


def _as_shown(table: pa.Table, fields: Sequence[pa.Field], path: str) -> pa.Table:
    """Return a table with the types of the file's schema.

    Args:
        table: rows of the file.
        fields: with other types in the table.
        path: of the file.

    Raises:
        DataError: naming a column with times outside of its type's range.
    """
    for field in fields:
        if (place := table.schema.get_field_index(field.name)) < 0:
            continue
        try:
            table = table.set_column(place, field, table.column(place).cast(field.type))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{path}: column {field.name} has times, stored as {_INT96}, that {field.type} "
                f"does not reach ({error}): leave it out by read.columns, or write microseconds, "
                "as Spark does with outputTimestampType TIMESTAMP_MICROS"
            ) from error
    return table


def arrow_tables(
    fragment: Fragment, columns: Sequence[str] | None, chunk_rows: int, opened: Opener
) -> Iterator[pa.Table]:
    """Yield the rows of row groups in tables of `chunk_rows` rows; the last may be smaller.

    Times that are stored as INT96 are microseconds.

    Args:
        fragment: with row groups.
        columns: to read, of those that the file has; None for all.
        chunk_rows: maximum rows of a table.
        opened: opens a file.
    """
    with _opened(fragment, columns, opened) as file:
        yield from _tables(file, fragment, columns, chunk_rows)


def _tables(
    file: pq.ParquetFile, fragment: Fragment, columns: Sequence[str] | None, chunk_rows: int
) -> Iterator[pa.Table]:
    groups = list(fragment.row_groups or range(file.num_row_groups))
    rows = file.metadata.num_rows if fragment.rows is None else fragment.rows
    if 0 < rows <= chunk_rows:
        yield file.read_row_groups(groups, columns=columns, use_threads=False)
        return
    for batch in file.iter_batches(
        chunk_rows, row_groups=groups, columns=columns, use_threads=False
    ):
        yield pa.Table.from_batches([batch])


def read_footers(
    files: Sequence[Found], field: str, access: FileAccess
) -> Iterator[pq.FileMetaData]:
    """Yield the footers of files, in order.

    Raises:
        InfrastructureError: if the storage does not return one.
        SpecError: naming a file that is not parquet.
    """

    def read(some: Sequence[Found]) -> list[pq.FileMetaData]:
        return [_footer(file.where, field, access) for file in some]

    # In a bucket each needs two requests, without work in between.
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        for first in range(0, len(files), FOOTERS_AHEAD):
            ahead = files[first : first + FOOTERS_AHEAD]
            size = -(-len(ahead) // (4 * FOOTERS_AT_ONCE))
            parts = [ahead[start : start + size] for start in range(0, len(ahead), size)]
            yield from chain.from_iterable(pool.map(read, parts))


@contextlib.contextmanager
def _opened(
    fragment: Fragment, columns: Sequence[str] | None, opened: Opener
) -> Iterator[pq.ParquetFile]:
    footer: pq.FileMetaData | None = None
    ahead: list[Span] = []
    if is_remote(fragment.path):
        with opened(fragment.path) as raw:
            footer = pq.read_metadata(raw)
        ahead = list(spans_of(footer, fragment.row_groups, columns or ()))
    # Prefetched ranges are already joined and buffered.
    with (
        opened(fragment.path, ahead) as raw,
        pq.ParquetFile(
            raw,
            metadata=footer,
            pre_buffer=footer is None,
            coerce_int96_timestamp_unit=_INT96_UNIT,
        ) as file,
    ):
        yield file


def _footer(file: str, field: str, access: FileAccess) -> pq.FileMetaData:
    def read() -> pq.FileMetaData:
        with access.opened(file) as raw:
            return pq.read_metadata(raw)

    try:
        return access.retry_policy.read(read)
    except (OSError, pa.ArrowException) as error:
        if is_passing(error):
            raise InfrastructureError(f"{field}.path: {file}: {error}", "storage") from error
        said = on_one_line(error)
        expected = f"a parquet file. Write it again, or set read.format. Reported: {said}"
        raise SpecError([Problem(f"{field}.path", file, expected)]) from error


def describe(file: Found, footer: pq.FileMetaData) -> File:
    """Return the identity of a file, from its footer."""
    groups = 0
    for number in range(footer.num_row_groups):
        info = footer.row_group(number)
        groups = zlib.crc32(f"{info.num_rows} {info.total_byte_size}\n".encode(), groups)
    return File(path=file.name, bytes=file.bytes, rows=footer.num_rows, groups=groups)


def _may_meet(
    where: Condition, fragment: Fragment, footer: pq.FileMetaData, schema: pa.Schema
) -> bool:
    # Whole fragments only: the split depends on positions in them, whatever the condition is.
    # Constants have the types of all files, such as float64 where a file has float32.
    paths = enumerate(footer.schema.column(number).path for number in range(footer.num_columns))
    leaves = {
        name: (number, schema.field(name).type) for number, name in paths if name in schema.names
    }
    groups = (footer.row_group(number) for number in fragment.row_groups)
    return any(may_meet(where, group, leaves) for group in groups)


def cut(path: str, number: int, footer: pq.FileMetaData) -> list[Fragment]:
    """Return a fragment; number: of the file among all."""
    fragments: list[Fragment] = []
    for group in range(footer.num_row_groups):
        info = footer.row_group(group)
        if not info.num_rows:
            continue
        last = fragments[-1] if fragments else None
        if last and last.num_bytes + info.total_byte_size <= FRAGMENT_BYTES:
            fragments[-1] = Fragment(
                path,
                number,
                (*last.row_groups, group),
                (last.rows or 0) + info.num_rows,
                last.num_bytes + info.total_byte_size,
            )
        else:
            fragments.append(Fragment(path, number, (group,), info.num_rows, info.total_byte_size))
    return fragments
