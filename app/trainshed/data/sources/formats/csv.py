"""Comma-separated values."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.line_files import (
    cut_files,
    ends_file,
    first_bytes,
    head_of,
    line_blocks,
    with_packed,
)
from trainshed.data.sources.formats.salvage import RecordBlock, in_chunks, parsed
from trainshed.data.sources.formats.shared_types import (
    inexact,
    parsed_as,
    refuse_missing,
    refuse_rounded,
    shared_schema,
    told_types,
)
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.formats import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener


# Bytes of a file that must include the header.
HEADER_BYTES = 2**16
LINE_ENDS = b"\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A quoted value, where values have quotes inside: slow. See _pattern for Q and D.
_QUOTED = rb"Q(?:(?<![^D\n\r]Q)|(?<=\A%bQ))[^Q]*(?:QQ[^Q]*)*(?P<end>Q?)" % _BYTE_ORDER_MARK
# A quoted value that a backslash and a quote would end in its middle.
_ESCAPED_QUOTE = rb"(?:^|[D\r\n])Q[^Q\r\n]*\\Q[^QD\r\n]"
# Maximum size of a record: a longer one has an unclosed quote.
MOST_RECORD_BYTES = 16 * 2**20
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"
# Texts that mean a missing number in any file.
_NULLS = tuple(pacsv.ConvertOptions().null_values)
# Arrow's report of a row that is shorter or longer than the first one.
_OTHER_ROW = re.compile(r"Expected (\d+) columns, got (\d+): (.*)")
# What separates values in files that are no csv by their options.
_DELIMITERS = ("\t", ";", "|")
# Reasons of bad records, and the option that reads them.
_MULTILINE = "options.multiline: true reads values with line ends"
_SPREAD = f"a value in quotes has line ends; {_MULTILINE}"
_OPEN = "a quote is not closed"


class Csv(Format):
    """Lines of values, with types shared by all files."""

    suffixes = with_packed(".csv", ".tsv")
    unmoving = ("names", "types")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment] | None]:
        options = scan.options_as(CsvOptions)

        def told(file: Found, most: int | None) -> pa.Schema | None:
            try:
                return _head(file.where, scan, field, opened, most)
            except pa.ArrowException as error:
                expected = _say_expected(on_one_line(error))
                raise SpecError([Problem(f"{field}.path", file.where, expected)]) from error
            except UnicodeDecodeError as error:
                expected = f"a header in {options.encoding}. Set options.encoding"
                raise SpecError([Problem(f"{field}.path", file.where, expected)]) from error

        schema, floats = shared_schema(files, told, options.types, field)
        scan = replace(scan, schema=schema, floats=floats)
        return scan, None if options.multiline else cut_files(files)

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, scan, columns, chunk_rows, opened = read
        yield from in_chunks(_parsed(fragment, scan, columns, opened), chunk_rows)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        options = scan.options_as(CsvOptions)
        head = head_of(fragment.path, opened)
        return max(0, head.lines.count(b"\n") - options.header) / head.stored


def _say_expected(error: str) -> str:
    """Return what a file should have instead of what the parser reports, and what to do."""
    if found := _OTHER_ROW.search(error):
        wanted, number, row = found.groups()
        return (
            f"{wanted} values in each row, but a row has {number}: {row}. See options.delimiter "
            "and options.quote, or leave such rows out by onBadRecord: skip"
        )
    return f"comma-separated values. See options.delimiter and options.quote. Reported: {error}"


def _check_delimiter(path: str, head: bytes, options: CsvOptions, field: str) -> None:
    """Refuse files that another delimiter splits, unless the TrainingRun names this one.

    Raises:
        SpecError: naming the other delimiter.
    """
    if "delimiter" in options.model_fields_set or options.names:
        return
    lines = [line for line in head.splitlines() if line.strip()]
    if not lines or options.delimiter.encode() in lines[0]:
        return
    for sign in _DELIMITERS:
        if all(sign.encode() in line for line in lines):
            expected = f"{show_value(sign)}, which is in each of the first lines of {path}"
            got = show_value(options.delimiter)
            raise SpecError([Problem(f"{field}.options.delimiter", got, expected)])


def _parsing(options: CsvOptions) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote or False,
        escape_char=options.escape or False,
        newlines_in_values=options.multiline,
    )


def _converting(options: CsvOptions) -> pacsv.ConvertOptions:
    return pacsv.ConvertOptions(
        decimal_point=options.decimal, null_values=[*_NULLS, *options.null_values]
    )


def _without_comments(block: bytes, options: CsvOptions) -> bytes:
    """Return a block with empty lines instead of comments, at the same byte positions."""
    if options.comment is None or options.comment.encode() not in block:
        return block
    begin = rb"^(?:%b)?%b" % (_BYTE_ORDER_MARK, re.escape(options.comment.encode()))
    comment = re.compile(begin + rb"[^\n]*", re.MULTILINE)
    return comment.sub(lambda found: b"\n" * len(found[0]), block)


def _in_utf8(block: bytes, options: CsvOptions) -> bytes:
    """Return a block in UTF-8.

    Raises:
        UnicodeDecodeError: for a byte that the encoding does not have.
    """
    return block if options.encoding == "utf-8" else block.decode(options.encoding).encode()


def _head(path: str, scan: Scan, field: str, opened: Opener, most: int | None) -> pa.Schema | None:
    """Return the columns of a file's first rows, skipping bad ones if allowed.

    None without a row.
    """
    options = scan.options_as(CsvOptions)
    head = _without_comments(head_of(path, opened, most).lines, options).lstrip(LINE_ENDS)
    head = _in_utf8(head, options)
    if not head:
        return None
    _header_in(path, head, options)
    if (
        options.quote
        and options.escape is None
        and _pattern(_ESCAPED_QUOTE, options.quote, options.delimiter).search(head)
    ):
        raise DataError(f"{path}: a value has a backslash before a quote. Set options.escape")
    _check_delimiter(path, head, options, field)
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
        parsing.invalid_row_handler = lambda _: "skip"
    converting = _converting(options)
    table = pacsv.read_csv(pa.BufferReader(head), reading, parsing, converting)
    if not table.num_rows:
        return None
    schema = told_types(table)
    # Invalid UTF-8 is an error, and does not turn texts into bytes.
    return pa.schema(
        [each.with_type(pa.string()) if pa.types.is_binary(each.type) else each for each in schema]
    )


def _parsed(
    fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
) -> Iterator[pa.Table | BadRecord]:
    assert scan.schema
    options, columns = scan.options_as(CsvOptions), columns or scan.schema.names
    names = _names_in(fragment.path, scan, opened)
    blocks: Iterator[tuple[int, bytes]] = (
        (place, _without_comments(block, options)) for place, block in line_blocks(fragment, opened)
    )
    if options.multiline:
        blocks = _record_blocks(fragment.path, blocks, options)

    def cut(text: bytes) -> list[bytes]:
        # A quoted value may continue in the next block, whose first lines are then not rows.
        while len(_quotes(text, options)) % 2 and len(text) <= MOST_RECORD_BYTES:
            if (following := next(blocks, None)) is None:
                break
            text += following[1]
        return cut_records(text, options)

    parse = partial(_parse, scan=scan, names=names, columns=columns)
    skips = options.header and not (fragment.span and fragment.span[0])
    for place, block in blocks:
        begin = _header_end(block, options) if skips else 0
        skips = False
        records = RecordBlock(fragment.path, place + begin, block[begin:])
        for found in parsed(records, parse, cut, skips_bad=scan.skips_bad):
            if not isinstance(found, BadRecord):
                yield found
                continue
            if found.reason == _OPEN and (next(blocks, None) or not ends_file(fragment, opened)):
                # The reader of the file's next part would take lines of the value for rows.
                raise DataError(
                    f"{found.say()}, and which of the lines after it are rows is not known. Close "
                    f"the quote; {_MULTILINE}"
                )
            yield _told(found, scan)


def _told(bad: BadRecord, scan: Scan) -> BadRecord:
    """Return a bad record with what to do about it.

    Raises:
        DataError: for a value with line ends, unless bad records are skipped.
    """
    options = scan.options_as(CsvOptions)
    if bad.reason == _SPREAD and not scan.skips_bad:
        raise DataError(bad.say())
    if options.multiline and bad.reason != _OPEN:
        bad = replace(bad, rows=1)
    if "conversion error" not in bad.reason:
        return bad
    hint = "options.types may name a type that holds all values of a column"
    if "invalid UTF8" in bad.reason:
        hint = "see options.encoding"
    return replace(bad, reason=f"{bad.reason}; {hint}")


def _names_in(path: str, scan: Scan, opened: Opener) -> list[str]:
    """Return the columns of a file, in the order of its header.

    Raises:
        DataError: if the header has a column that no inspected file has.
    """
    options, schema = scan.options_as(CsvOptions), scan.schema
    assert schema
    names: list[str] = schema.names
    if options.names or not options.header:
        return names
    head = _without_comments(first_bytes(path, opened, HEADER_BYTES), options)
    header = _in_utf8(_header_in(path, head, options), options)
    if not header:
        return names
    found = pacsv.read_csv(pa.BufferReader(header + b"\n"), None, _parsing(options)).schema.names
    if not set(found) <= set(names):
        expected = f"expected those of the other files: {', '.join(names)}"
        raise DataError(f"{path}: its header names {', '.join(found)}; {expected}")
    return list(found)


def _header_in(path: str, head: bytes, options: CsvOptions) -> bytes:
    """Return the first line of a file that is not empty.

    Raises:
        DataError: if carriage returns end lines, as tasks find lines by line feeds.
    """
    header = head[: _header_end(head, options)].strip(LINE_ENDS)
    lines = header.replace(LINE_ENDS, b"\n")
    if len(_record_ends(lines, _quotes(lines, options), _CARRIAGE_RETURN)):
        raise DataError(f"{path}: lines end by a carriage return alone. Write line feeds")
    return header


def _header_end(block: bytes, options: CsvOptions) -> int:
    """Return the end of the header, which empty lines may precede."""
    begin = len(block) - len(block.lstrip(LINE_ENDS))
    if options.multiline and block[begin:]:
        return begin + len(cut_records(block[begin:], options)[0])
    return block.find(b"\n", begin) + 1 or len(block)


def _parse(block: bytes, *, scan: Scan, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return the rows of complete lines, with nulls in columns that the file lacks.

    Raises:
        pyarrow.ArrowException: for missing values, or values of another type.
        ValueError: for an unclosed quote: it would join the lines up to the next one.
    """
    options, schema = scan.options_as(CsvOptions), scan.schema
    assert schema
    if not block.strip():
        return schema.empty_table().select(list(columns))
    block = _in_utf8(block, options)
    reading = pacsv.ReadOptions(use_threads=False, block_size=len(block), column_names=names)

    def parse(kinds: pa.Schema, wanted: Sequence[str] = columns) -> pa.Table:
        converting = _converting(options)
        converting.column_types = {each.name: each.type for each in kinds}
        converting.include_columns = list(wanted)
        converting.include_missing_columns = True
        return pacsv.read_csv(pa.BufferReader(block), reading, _parsing(options), converting)

    def written(name: str, rows: NDArray[np.int64]) -> Iterator[float | None]:
        texts = parse(pa.schema([(name, pa.string())]), [name]).column(0)
        shown: list[str] = texts.take(pa.array(rows)).to_pylist()
        return (_number(text.replace(options.decimal, "."), name) for text in shown)

    try:
        table = parsed_as(schema, scan.floats, parse)
    except pa.ArrowInvalid as error:
        if why := _misquoted(block, options):
            raise ValueError(why) from error
        raise
    # If each line is a row, only the last one can have an open quote. Checking all quotes takes up
    # to half of the parsing time.
    is_row_each = not options.multiline and table.num_rows == _num_lines(block)
    doubtful = block[block.rfind(b"\n", 0, -1) + 1 :] if is_row_each else block
    if why := _misquoted(doubtful, options):
        raise ValueError(why)
    refuse_missing(table, scan.floats)
    refuse_rounded(table, options.types, written)
    return table


def _number(text: str, column: str) -> float | None:
    """Return a number, exactly if it is an integer; None for other texts.

    Raises:
        pyarrow.ArrowNotImplementedError: for one that is infinite as float64.
    """
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        number = float(text)
        if math.isinf(number) and any(map(str.isdigit, text)):
            raise inexact(text, "float64", column)
        return number
    return None


def _num_lines(block: bytes) -> int | None:
    """Return the number of lines of a block; None if carriage returns inside lines end rows."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return None
    return block.count(b"\n") + (not block.endswith(b"\n"))


def _misquoted(text: bytes, options: CsvOptions) -> str | None:
    """Return the error in the quotes of a text that begins with a record."""
    quotes = _quotes(text, options)
    if len(quotes) % 2:
        return _OPEN
    if options.multiline or len(_record_ends(text, quotes)) == text.count(b"\n"):
        return None
    return _SPREAD


def _record_blocks(
    path: str, blocks: Iterable[tuple[int, bytes]], options: CsvOptions
) -> Iterator[tuple[int, bytes]]:
    """Yield blocks that end with a record.

    Raises:
        DataError: for a record beyond the maximum size, after which no record can be found.
    """
    begin, held = 0, b""
    for place, block in blocks:
        begin, held = begin if held else place, held + block
        quotes = _quotes(held, options)
        end = len(held)
        if len(quotes) % 2:
            end = (0, *_record_ends(held, quotes)[-1:].tolist())[-1]
        if end:
            yield begin, held[:end]
            begin, held = begin + end, held[end:]
        if len(held) > MOST_RECORD_BYTES:
            raise DataError(
                f"{path}: byte {begin}: {_OPEN} within {MOST_RECORD_BYTES} bytes, the most that a "
                "record may have. Close it."
            )
    if held:
        yield begin, held


def cut_records(text: bytes, options: CsvOptions) -> list[bytes]:
    """Return the records of a text: lines, joined while a quote is open."""
    ends = [0, *_record_ends(text, _quotes(text, options)).tolist()]
    if ends[-1] < len(text):
        ends.append(len(text))
    return [text[begin:end] for begin, end in pairwise(ends)]


def _record_ends(
    text: bytes, quotes: NDArray[np.int64], line_end: int = _LINE_FEED
) -> NDArray[np.int64]:
    """Return the positions after line ends outside of quoted values, shape (records,).

    Args:
        text: begins with a record.
        quotes: from `_quotes`.
        line_end: code of the character.
    """
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == line_end) + 1
    found: NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return found


def _quotes(text: bytes, options: CsvOptions) -> NDArray[np.int64]:
    """Return the positions of the quotes that begin or end a value, shape (quotes,).

    With an odd number the last value is open. As in Arrow and Python's csv module, a quote opens a
    value only as its first character; later quotes are literal, unless the value is quoted. A
    doubled quote in a quoted value counts here as an end and a beginning.

    Args:
        text: begins with a record.
        options: of the files; an escaped quote is part of a value.
    """
    quote, delimiter = options.quote.encode(), options.delimiter.encode()
    if not quote or quote not in text:
        return np.empty(0, dtype=np.int64)
    if options.escape is not None:
        escaped = re.compile(rb"%b[^\r\n]" % re.escape(options.escape.encode()))
        text = escaped.sub(b"xx", text)
    codes = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(codes == ord(quote))
    if not len(quotes):
        return quotes
    # Every second one must open a value, or follow directly the quote that ended one.
    before = codes[quotes[::2] - 1]
    opens = (before == ord(delimiter)) | (before == _LINE_FEED) | (before == _CARRIAGE_RETURN)
    opens |= before == ord(quote)
    opens[0] |= text[: quotes[0]] in {b"", _BYTE_ORDER_MARK}
    if opens.all():
        return quotes
    found = _pattern(_QUOTED, options.quote, options.delimiter).finditer(text)
    places = [place for each in found for place in (each.start(), each.start("end"))]
    is_open = bool(places) and places[-1] == len(text)
    return np.asarray(places[:-1] if is_open else places, dtype=np.int64)


@cache
def _pattern(template: bytes, quote: str, delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern in which Q stands for the quote and D for the delimiter."""
    for name, character in ((b"Q", quote), (b"D", delimiter)):
        template = template.replace(name, re.escape(character.encode()))
    return re.compile(template)
