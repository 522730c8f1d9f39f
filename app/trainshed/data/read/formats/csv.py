"""Comma-separated values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
from typing_extensions import override

from trainshed.data.read.arrow import from_arrow
from trainshed.data.read.errors import DataError
from trainshed.data.read.formats.format import Format
from trainshed.data.read.formats.lines import (
    BLOCK_BYTES,
    cut_files,
    head_of,
    is_packed,
    line_blocks,
    with_packed,
)
from trainshed.data.read.formats.types import shared_schema
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.order.files import Fragment, Scan
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.listing import Found
    from trainshed.data.read.rereading import Opener


class Csv(Format):
    """Lines of values, whose types all files share."""

    suffixes = with_packed(".csv", ".tsv")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, list[Fragment]]:
        options = _options(scan)

        def told(path: str) -> pa.Schema:
            try:
                return _head(path, options, opened).schema
            except pa.ArrowException as error:
                got, want = f"{path}", f"comma-separated values ({error})"
                raise SpecError([Problem(f"{field}.path", got, want)]) from error

        schema = shared_schema(files, told, options.types, field)
        return replace(scan, schema=schema), cut_files(files, whole=options.multiline)

    @override
    def tables(
        self,
        fragment: Fragment,
        scan: Scan,
        columns: Sequence[str],
        chunk_rows: int,
        opened: Opener,
    ) -> Iterator[Columns]:
        for where, table in self._parsed(fragment, scan, columns, opened):
            try:
                for start in range(0, table.num_rows, chunk_rows):
                    yield from_arrow(table.slice(start, chunk_rows))
            except pa.ArrowException as error:
                raise DataError(f"{where}: {error}") from error

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        options = _options(scan)
        head = head_of(fragment.path, opened)
        return (head.lines.count(b"\n") - options.header) / head.stored

    def _parsed(
        self, fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
    ) -> Iterator[tuple[str, pa.Table]]:
        options = _options(scan)
        if options.multiline:
            yield from _whole(fragment, scan, columns, opened)
            return
        skips = options.header and not (fragment.span and fragment.span[0])
        for place, block in line_blocks(fragment, opened):
            where = f"{fragment.path}: lines from byte {place}"
            try:
                table = _parse(block, scan, columns, skips=skips)
            except pa.ArrowException as error:
                raise DataError(f"{where}: {_told(error)}") from error
            skips = False
            yield where, table


def _options(scan: Scan) -> CsvOptions:
    assert isinstance(scan.options, CsvOptions)
    return scan.options


def _parsing(options: CsvOptions) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(delimiter=options.delimiter, newlines_in_values=options.multiline)


def _head(path: str, options: CsvOptions, opened: Opener) -> pa.Table:
    head = head_of(path, opened).lines
    names = list(options.names)
    reading = pacsv.ReadOptions(
        use_threads=False,
        block_size=max(1, len(head)),
        column_names=names or None,
        skip_rows=int(bool(names) and options.header),
        autogenerate_column_names=not names and not options.header,
    )
    return pacsv.read_csv(pa.BufferReader(head), reading, _parsing(options))


def _parse(block: bytes, scan: Scan, columns: Sequence[str], *, skips: bool) -> pa.Table:
    reading, converting = _as_declared(scan, columns, skips=skips, block_bytes=len(block))
    parsing = _parsing(_options(scan))
    if skips and block.count(b"\n") <= 1 and not block.rstrip(b"\r\n").count(b"\n"):
        assert scan.schema
        return scan.schema.empty_table()  # a header alone
    return pacsv.read_csv(pa.BufferReader(block), reading, parsing, converting)


def _as_declared(
    scan: Scan, columns: Sequence[str], *, skips: bool, block_bytes: int
) -> tuple[pacsv.ReadOptions, pacsv.ConvertOptions]:
    assert scan.schema
    reading = pacsv.ReadOptions(
        use_threads=False,
        block_size=max(1, block_bytes),
        column_names=scan.schema.names,
        skip_rows=int(skips),
    )
    converting = pacsv.ConvertOptions(
        column_types={each.name: each.type for each in scan.schema},
        include_columns=list(columns) or None,
        quoted_strings_can_be_null=False,
    )
    return reading, converting


def _whole(
    fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
) -> Iterator[tuple[str, pa.Table]]:
    """Yield tables of a file whose lines are no rows; each has the next values of it."""
    skips = _options(scan).header
    reading, converting = _as_declared(scan, columns, skips=skips, block_bytes=BLOCK_BYTES)
    with opened(fragment.path) as raw:
        stream = pa.CompressedInputStream(raw, "detect") if is_packed(fragment.path) else raw
        try:
            reader = pacsv.open_csv(stream, reading, _parsing(_options(scan)), converting)
            for batch in reader:
                yield fragment.path, pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise DataError(f"{fragment.path}: {_told(error)}") from error


def _told(error: pa.ArrowException) -> str:
    return f"{error}; options.types may name a type that holds all values of a column"
