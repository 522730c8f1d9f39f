"""Plain text: a line is a row."""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.line_files import cut_files, head_of, line_blocks, with_packed
from trainshed.data.sources.formats.salvage import cut_lines
from trainshed_api.formats import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

COLUMN = "text"
Lines = np.ndarray[tuple[int], np.dtype[np.object_]]


class Text(Format):
    """Lines in UTF-8, without line ends."""

    suffixes = with_packed(".txt", ".text")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment] | None]:
        return replace(scan, schema=pa.schema([(COLUMN, pa.string())])), cut_files(files)

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, scan, _, chunk_rows, opened = read
        for place, block in line_blocks(fragment, opened):
            for lines in _lines(fragment.path, place, block, scan):
                if isinstance(lines, BadRecord):
                    yield lines
                    continue
                for start in range(0, len(lines), chunk_rows):
                    yield {COLUMN: lines[start : start + chunk_rows]}

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        head = head_of(fragment.path, opened)
        return head.lines.count(b"\n") / head.stored


def _lines(path: str, place: int, block: bytes, scan: Scan) -> Iterator[Lines | BadRecord]:
    """Yield the lines of a block, with bad records for lines that are not UTF-8."""
    keeps_empty = scan.options_as(TextOptions).empty_lines
    if not place:
        block = block.removeprefix(codecs.BOM_UTF8)
    try:
        yield _column(block.decode(), keeps_empty=keeps_empty)
    except UnicodeDecodeError:
        pass
    else:
        return
    good: list[str] = []
    for line in cut_lines(block):
        try:
            good.append(line.decode())
        except UnicodeDecodeError as error:
            if good and scan.skips_bad:  # else the bad one ends the run: fail early
                yield _column("".join(good), keeps_empty=keeps_empty)
                good = []
            yield BadRecord(path, f"byte {place}", f"no UTF-8: {error}")
        place += len(line)
    if good:
        yield _column("".join(good), keeps_empty=keeps_empty)


def _column(text: str, *, keeps_empty: bool) -> Lines:
    # splitlines also splits at other characters.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    kept = lines if keeps_empty else [line for line in lines if line]
    found = np.empty(len(kept), dtype=object)
    found[:] = kept
    return found
