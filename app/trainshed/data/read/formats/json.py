"""JSON, an object a row: on each line, or in one list."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json as pajson
from typing_extensions import override

from trainshed.data.read.arrow import from_arrow
from trainshed.data.read.errors import DataError
from trainshed.data.read.formats.format import Format
from trainshed.data.read.formats.lines import cut_files, head_of, line_blocks, with_packed
from trainshed.data.read.formats.types import shared_schema
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import JsonOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.order.files import Fragment, Scan
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.listing import Found
    from trainshed.data.read.rereading import Opener


class Json(Format):
    """Objects, whose columns and types all files share."""

    suffixes = with_packed(".json", ".jsonl", ".ndjson")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, list[Fragment]]:
        options = _options(scan)

        def told(path: str) -> pa.Schema:
            try:
                return _head(path, options, opened).schema
            except (pa.ArrowException, ValueError) as error:
                form = "an object on each line" if options.lines else "a list of objects"
                want = f"{form}; see options.lines ({error})"
                raise SpecError([Problem(f"{field}.path", path, want)]) from error

        schema = shared_schema(files, told, options.types, field)
        return replace(scan, schema=schema), cut_files(files, whole=not options.lines)

    @override
    def tables(
        self,
        fragment: Fragment,
        scan: Scan,
        columns: Sequence[str],
        chunk_rows: int,
        opened: Opener,
    ) -> Iterator[Columns]:
        for where, table in _parsed(fragment, scan, columns, opened):
            wanted = table.select(list(columns)) if columns else table
            try:
                for start in range(0, wanted.num_rows, chunk_rows):
                    yield from_arrow(wanted.slice(start, chunk_rows))
            except pa.ArrowException as error:
                raise DataError(f"{where}: {error}") from error

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        options = _options(scan)
        if not options.lines:
            rows = int(_head(fragment.path, options, opened).num_rows)
            return rows / max(1, fragment.num_bytes)
        head = head_of(fragment.path, opened)
        return head.lines.count(b"\n") / head.stored


def _options(scan: Scan) -> JsonOptions:
    assert isinstance(scan.options, JsonOptions)
    return scan.options


def _head(path: str, options: JsonOptions, opened: Opener) -> pa.Table:
    if not options.lines:
        return _listed(path, None, opened)
    return _of_lines(head_of(path, opened).lines, None, ignores=False)


def _parsed(
    fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
) -> Iterator[tuple[str, pa.Table]]:
    assert scan.schema
    schema = pa.schema([scan.schema.field(name) for name in columns]) if columns else scan.schema
    if not _options(scan).lines:
        try:
            yield fragment.path, _listed(fragment.path, schema, opened)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"{fragment.path}: {error}") from error
        return
    for place, block in line_blocks(fragment, opened):
        where = f"{fragment.path}: lines from byte {place}"
        if not block.strip():
            continue
        try:
            table = _of_lines(block, schema, ignores=bool(columns))
        except pa.ArrowException as error:
            raise DataError(f"{where}: {error}; options.types names types of columns") from error
        yield where, table


def _of_lines(block: bytes, schema: pa.Schema | None, *, ignores: bool) -> pa.Table:
    """Return the rows of lines; ignores: passes over columns that are not asked for."""
    parsing = pajson.ParseOptions(
        explicit_schema=schema,
        unexpected_field_behavior="ignore" if ignores else "infer" if schema is None else "error",
    )
    # A block more than the text, or it would be cut in the middle of an object.
    reading = pajson.ReadOptions(use_threads=False, block_size=len(block) + 1)
    return pajson.read_json(pa.BufferReader(block), reading, parsing)


def _listed(path: str, schema: pa.Schema | None, opened: Opener) -> pa.Table:
    with opened(path) as raw:
        rows = json.loads(raw.read())
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("want one list of objects")
    return pa.Table.from_pylist(rows, schema=schema)
