"""Separates good and bad records that are parsed together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.arrow_columns import in_tables
from trainshed.data.sources.formats.shared_types import REMEDY, told_types
from trainshed.data.sources.unified_schema import FileSchema, unified_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.data.sources.column_arrays import Columns

Item = TypeVar("Item")

# Exceptions of parsers for invalid records.
UNPARSED = (ValueError, OverflowError, pa.ArrowTypeError)
_BLANK = (b"\n", b"\r", b" ", b"\t")


def salvage(
    items: Sequence[Item],
    parse: Callable[[Sequence[Item]], pa.Table],
    start: int = 0,
    stop: int | None = None,
) -> Iterator[pa.Table | tuple[int, str]]:
    """Yield tables of the items in order, and (position, reason) of each bad one.

    An item is bad if it cannot be parsed alone: blocks are halved until it is isolated.

    Args:
        items: to parse, several at a time.
        parse: raises one of UNPARSED if any of them is bad.
        start: position of the first one.
        stop: position after the last one; None for all.
    """
    stop = len(items) if stop is None else stop
    if start == stop:
        return
    try:
        table = parse(items[start:stop])
    except UNPARSED as error:
        if stop - start == 1:
            yield start, str(error)
            return
    else:
        yield table
        return
    middle = (start + stop) // 2
    yield from salvage(items, parse, start, middle)
    yield from salvage(items, parse, middle, stop)


def in_chunks(
    found: Iterable[pa.Table | BadRecord], chunk_rows: int, columns: Sequence[str] = ()
) -> Iterator[Columns | BadRecord]:
    """Yield the columns of tables, at most `chunk_rows` rows each, and the bad records between.

    columns: to select; empty for all.
    """
    for each in found:
        if isinstance(each, BadRecord):
            yield each
        else:
            yield from in_tables(each.select(list(columns)) if columns else each, chunk_rows)


@dataclass(frozen=True)
class RecordBlock:
    """Complete records of a file.

    Args:
        path: of the file.
        place: byte position of the first record.
        records: concatenated.
    """

    path: str
    place: int
    records: bytes


def parsed(
    block: RecordBlock,
    parse: Callable[[bytes], pa.Table],
    cut: Callable[[bytes], Sequence[bytes]],
    *,
    skips_bad: bool,
) -> Iterator[pa.Table | BadRecord]:
    """Yield the rows of a block, and each bad record.

    Args:
        block: of records.
        parse: as in `salvage`, for concatenated records.
        cut: splits a block into records; called only if one is bad.
        skips_bad: whether to skip bad ones; else the first ends the run, and is yielded before the
            rows around it, to fail early.
    """
    try:
        table = parse(block.records)
    except UNPARSED:
        pass
    else:
        yield table
        return
    records = cut(block.records)
    places = list(accumulate(map(len, records), initial=block.place))
    for found in salvage(records, lambda some: parse(b"".join(some))):
        if isinstance(found, tuple):
            at, reason = found
            rows = max(1, num_lines(records[at]))
            yield BadRecord(block.path, f"byte {places[at]}", reason, rows)
        elif skips_bad:
            yield found


def shared(found: Iterable[pa.Table | BadRecord], path: str, field: str) -> pa.Schema | None:
    """Return columns and types of the good rows of a file; None without good rows."""
    good = (each for each in found if not isinstance(each, BadRecord) and each.num_rows)
    schemas = [FileSchema(path, told_types(each)) for each in good]
    return unified_schema(schemas, f"{field}.options.types", REMEDY) if schemas else None


def cut_lines(block: bytes) -> list[bytes]:
    """Return the lines of a block, each with its end."""
    *ended, rest = block.split(b"\n")
    return [*(line + b"\n" for line in ended), *([rest] if rest else [])]


def num_lines(block: bytes, likely: int = 0) -> int:
    """Return the number of lines that are not empty.

    likely: the expected number; if it equals the line count, no search for empty lines is needed,
    which takes a third of the parsing time.
    """
    most = block.count(b"\n") + (not block.endswith(b"\n"))
    if likely < most and (block[:1] in _BLANK or any(b"\n" + each in block for each in _BLANK)):
        return sum(1 for line in block.split(b"\n") if line.strip())
    return most
