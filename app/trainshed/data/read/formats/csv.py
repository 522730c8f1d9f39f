"""Comma-separated values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
from typing_extensions import override

from trainshed.data.order.bad_records import BadRecord
from trainshed.data.read.arrow import in_tables
from trainshed.data.read.errors import DataError
from trainshed.data.read.formats.format import Format
from trainshed.data.read.formats.lines import (
    cut_files,
    first_bytes,
    head_of,
    line_blocks,
    with_packed,
)
from trainshed.data.read.formats.salvage import Block, cut_lines, num_lines, parsed
from trainshed.data.read.formats.types import refuse_missing, shared_schema, told_types
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.order.files import Fragment, Scan
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.listing import Found
    from trainshed.data.read.opening import Opener


# Of a file, in which its header ends.
HEADER_BYTES = 2**16
LINE_ENDS = b"\r\n"
# More than that is no record: a quote was not closed.
MOST_RECORD_BYTES = 16 * 2**20


class Csv(Format):
    """Lines of values, whose types all files share."""

    suffixes = with_packed(".csv", ".tsv")
    unmoving = ("names", "types")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, list[Fragment]]:
        options = _options(scan)

        def told(path: str) -> pa.Schema | None:
            try:
                return _head(path, scan, opened)
            except pa.ArrowException as error:
                got, want = f"{path}", f"comma-separated values ({error})"
                raise SpecError([Problem(f"{field}.path", got, want)]) from error

        schema, floats = shared_schema(files, told, options.types, field)
        scan = replace(scan, schema=schema, floats=floats)
        return scan, cut_files(files, whole=options.multiline)

    @override
    def tables(
        self,
        fragment: Fragment,
        scan: Scan,
        columns: Sequence[str],
        chunk_rows: int,
        opened: Opener,
    ) -> Iterator[Columns | BadRecord]:
        for found in _parsed(fragment, scan, columns, opened):
            if isinstance(found, BadRecord):
                yield found
                continue
            yield from in_tables(found, chunk_rows)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        options = _options(scan)
        head = head_of(fragment.path, opened)
        return max(0, head.lines.count(b"\n") - options.header) / head.stored


def _options(scan: Scan) -> CsvOptions:
    assert isinstance(scan.options, CsvOptions)
    return scan.options


def _parsing(options: CsvOptions) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(delimiter=options.delimiter, newlines_in_values=options.multiline)


def _head(path: str, scan: Scan, opened: Opener) -> pa.Schema | None:
    """Return the columns of a file's first rows; bad ones are passed over where they may be.

    None where no line has anything on it.
    """
    options, head = _options(scan), head_of(path, opened).lines.lstrip(LINE_ENDS)
    if not head:
        return None
    if b"\n" not in head and b"\r" in head.rstrip(LINE_ENDS):
        raise pa.ArrowInvalid("lines end by a carriage return alone")
    names, head = list(options.names), head if head.endswith(b"\n") else head + b"\n"
    reading = pacsv.ReadOptions(
        use_threads=False,
        block_size=max(1, len(head)),
        column_names=names or None,
        skip_rows=int(bool(names) and options.header),
        autogenerate_column_names=not names and not options.header,
    )
    parsing = _parsing(options)
    if scan.skips_bad:
        parsing.invalid_row_handler = _pass_over
    schema = told_types(pacsv.read_csv(pa.BufferReader(head), reading, parsing))
    # What is no UTF-8 is bad, and does not make bytes of all texts.
    return pa.schema(
        [each.with_type(pa.string()) if pa.types.is_binary(each.type) else each for each in schema]
    )


def _pass_over(_: pacsv.InvalidRow) -> str:
    return "skip"


def _parsed(
    fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
) -> Iterator[pa.Table | BadRecord]:
    assert scan.schema
    options, columns = _options(scan), columns or scan.schema.names
    scan = _as_in_file(fragment.path, scan, opened)
    blocks = line_blocks(fragment, opened)
    if options.multiline:
        blocks = _record_blocks(blocks)
    parse = partial(_parse, scan=scan, columns=columns)
    cut = cut_records if options.multiline else cut_lines
    skips = options.header and not (fragment.span and fragment.span[0])
    for place, block in blocks:
        begin = _header_end(block, options) if skips else 0
        skips = False
        records = Block(fragment.path, place + begin, block[begin:])
        for found in parsed(records, parse, cut, skips_bad=scan.skips_bad):
            yield _told(found) if isinstance(found, BadRecord) else found


def _told(bad: BadRecord) -> BadRecord:
    if "conversion error" not in bad.reason:
        return bad
    hint = "options.types may name a type that holds all values of a column"
    if "invalid UTF8" in bad.reason:
        hint = "texts of all files have to be UTF-8"
    return replace(bad, reason=f"{bad.reason}; {hint}")


def _as_in_file(path: str, scan: Scan, opened: Opener) -> Scan:
    """Return a scan with the columns in the order of a file's own header.

    Raises:
        DataError: when that has other columns.
    """
    options, schema = _options(scan), scan.schema
    assert schema
    if options.names or not options.header:
        return scan
    head = first_bytes(path, opened, HEADER_BYTES)
    header = head[: _header_end(head, options)].strip(LINE_ENDS)
    if not header:
        return scan
    found = pacsv.read_csv(pa.BufferReader(header + b"\n"), None, _parsing(options)).schema.names
    if sorted(found) != sorted(schema.names):
        want = f"want those of the other files: {', '.join(schema.names)}"
        raise DataError(f"{path}: its header names {', '.join(found)}, {want}")
    return replace(scan, schema=pa.schema([schema.field(name) for name in found]))


def _header_end(block: bytes, options: CsvOptions) -> int:
    """Return where the header ends, before which there may be lines with nothing on them."""
    begin = len(block) - len(block.lstrip(LINE_ENDS))
    if options.multiline and block[begin:]:
        return begin + len(cut_records(block[begin:])[0])
    return block.find(b"\n", begin) + 1 or len(block)


def _parse(block: bytes, *, scan: Scan, columns: Sequence[str]) -> pa.Table:
    """Return the rows of whole lines.

    Raises:
        pyarrow.ArrowException: for values that are too few, or not of their type.
        ValueError: for a quote that is not closed: all up to the next one were one value.
    """
    options, schema = _options(scan), scan.schema
    assert schema
    if not block.strip():
        return schema.empty_table().select(list(columns))
    converting = pacsv.ConvertOptions(
        column_types={each.name: each.type for each in schema},
        include_columns=list(columns),
    )
    table = _read(block, scan, converting)
    if not options.multiline and table.num_rows < num_lines(block, likely=table.num_rows):
        raise ValueError("a value with a line end, or a quote that is not closed; see multiline")
    last = block if options.multiline else block[block.rstrip(b"\r\n").rfind(b"\n") + 1 :]
    if last.count(b'"') % 2 and _is_open(last, scan):
        raise ValueError("a quote is not closed")
    refuse_missing(table, scan.floats)
    return table


def _read(text: bytes, scan: Scan, converting: pacsv.ConvertOptions) -> pa.Table:
    assert scan.schema
    names = scan.schema.names
    reading = pacsv.ReadOptions(use_threads=False, block_size=len(text), column_names=names)
    return pacsv.read_csv(pa.BufferReader(text), reading, _parsing(_options(scan)), converting)


def _is_open(text: bytes, scan: Scan) -> bool:
    """Say whether a quote is open at the end of a text: what follows is no row of its own then."""
    assert scan.schema
    names = scan.schema.names
    as_it_is = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()))
    ended = text if text.endswith(b"\n") else text + b"\n"
    one_more = ended + _options(scan).delimiter.join("0" for _ in names).encode()
    there, then = (_read(each, scan, as_it_is).num_rows for each in (ended, one_more))
    return bool(then == there)


def _record_blocks(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield blocks that end where a record does."""
    begin, held = 0, b""
    for place, block in blocks:
        begin, held = begin if held else place, held + block
        end = _records_end(held) or (len(held) if len(held) > MOST_RECORD_BYTES else 0)
        if end:
            yield begin, held[:end]
            begin, held = begin + end, held[end:]
    if held:
        yield begin, held


def _records_end(block: bytes) -> int:
    """Return behind which line no quote is open; 0 for none."""
    end, quotes = len(block), block.count(b'"')
    while quotes % 2:
        begin = block.rfind(b"\n", 0, end - 1) + 1
        quotes -= block.count(b'"', begin, end)
        end = begin
    return end


def cut_records(block: bytes) -> list[bytes]:
    """Return the records of a block: lines, up to where no quote is open."""
    records: list[bytes] = []
    held: list[bytes] = []
    quotes = 0
    for line in cut_lines(block):
        held.append(line)
        quotes += line.count(b'"')
        if not quotes % 2:
            records.append(b"".join(held))
            held = []
    return [*records, b"".join(held)] if held else records
