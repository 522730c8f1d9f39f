"""Plain text: a line is a row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.read.errors import DataError
from trainshed.data.read.formats.format import Format
from trainshed.data.read.formats.lines import cut_files, head_of, line_blocks, with_packed
from trainshed_api.formats import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.order.files import Fragment, Scan
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.listing import Found
    from trainshed.data.read.rereading import Opener

COLUMN = "text"


class Text(Format):
    """Lines in UTF-8, without what ends them."""

    suffixes = with_packed(".txt", ".text")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, list[Fragment]]:
        return replace(scan, schema=pa.schema([(COLUMN, pa.string())])), cut_files(files)

    @override
    def tables(
        self,
        fragment: Fragment,
        scan: Scan,
        columns: Sequence[str],
        chunk_rows: int,
        opened: Opener,
    ) -> Iterator[Columns]:
        for place, block in line_blocks(fragment, opened):
            lines = _lines(block, scan, f"{fragment.path}: bytes from {place}")
            for start in range(0, len(lines), chunk_rows):
                yield {COLUMN: lines[start : start + chunk_rows]}

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        head = head_of(fragment.path, opened)
        return head.lines.count(b"\n") / head.stored


def _lines(block: bytes, scan: Scan, where: str) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    assert isinstance(scan.options, TextOptions)
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: no UTF-8: {error}") from error
    # splitlines knows more ends of lines than files have.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    kept = lines if scan.options.empty_lines else [line for line in lines if line]
    found = np.empty(len(kept), dtype=object)
    found[:] = kept
    return found
