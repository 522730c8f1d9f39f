"""JSON with one object per row: on lines, or in one list."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.json as pajson
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.errors import on_one_line
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.line_files import (
    cut_files,
    head_of,
    line_blocks,
    unpacked,
    with_packed,
)
from trainshed.data.sources.formats.salvage import (
    UNPARSED,
    RecordBlock,
    cut_lines,
    in_chunks,
    num_lines,
    parsed,
    salvage,
    shared,
)
from trainshed.data.sources.formats.shared_types import (
    declared,
    parsed_as,
    refuse_inexact,
    refuse_missing,
    refuse_rounded,
    shared_schema,
    told_types,
)
from trainshed.data.sources.unified_schema import as_texts
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import JsonOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener
    from trainshed_api.formats import ColumnType


_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()
# A line that does not begin with an object.
_NO_OBJECT = re.compile(rb"^[ \t\r]*[^ \t\r\n{]", re.MULTILINE)
# Arrow's report of a key whose values differ in type.
_SEVERAL_TYPES = re.compile(r"Column\((\S+)\) changed from (\w+) to (\w+)")
# Arrow's report of a key that an object has twice.
_TWICE = re.compile(r"Column\(/?(.+)\) was specified twice")
# The fields of an object, or of each in a list, with nested fields. Numbers have a type; other
# values None.
_Known: TypeAlias = Mapping[str, "_Known"] | pa.DataType | None


class Json(Format):
    """Objects, with columns and types shared by all files."""

    suffixes = with_packed(".json", ".jsonl", ".ndjson")
    unmoving = ("types",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment] | None]:
        options = scan.options_as(JsonOptions)

        def told(file: Found, most: int | None) -> pa.Schema | None:
            if most and file.bytes > most and not options.lines:  # a list is read whole
                return None
            try:
                return _head(file.where, scan, field, opened, most)
            except SpecError:
                raise
            except UNPARSED as error:
                start = head_of(file.where, opened, most).lines if options.lines else None
                expected = _say_expected(error, start)
                raise SpecError([Problem(f"{field}.path", file.where, expected)]) from error

        schema, floats = shared_schema(files, told, options.types, field)
        scan = replace(scan, schema=schema, floats=floats)
        return scan, cut_files(files) if options.lines else None

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, scan, columns, chunk_rows, opened = read
        found = _parsed(fragment, scan, columns, opened)
        yield from in_chunks(found, chunk_rows, columns)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        if scan.options_as(JsonOptions).lines:
            head = head_of(fragment.path, opened)
            return head.lines.count(b"\n") / head.stored
        try:
            return len(_listed(fragment.path, opened)) / max(1, fragment.num_bytes)
        except ValueError:  # reported when it is read
            return 0.0


def _say_expected(error: Exception, start: bytes | None) -> str:
    """Return what a file should have instead of what the parser reports, and what to do.

    start: of a file with an object on each line; None for a list.
    """
    said = on_one_line(error)
    reported = f". Reported: {said}"
    if found := _SEVERAL_TYPES.search(said):
        key, one, other = found.groups()
        return (
            f"values of one type for each key, but {key} has {one} beside {other}. Write one type, "
            "or read the lines by format: text and parse them in a transform"
        )
    if found := _TWICE.search(said):
        return f"different keys in each object, but one has {found[1]} twice. Rename one of them"
    if start is None:
        expected = "a list of objects. Correct the file"
        if isinstance(error, pa.ArrowException):
            expected = "values of one type for each key. Write one type"
        elif "Extra data" in said:
            expected = "a list of objects. Set options.lines: true for lines"
        return f"{expected}{reported}"
    first, *_ = start.removeprefix(_BOM).lstrip().split(b"\n", 1)
    if first.startswith(b"["):
        return "an object on each line, but the file is a list. Set options.lines: false"
    if first.startswith(b"{") and not first.rstrip().endswith(b"}"):
        return (
            "an object on each line, but the first one has several. Write each on one line, as "
            "jq -c does"
        )
    return (
        "an object on each line. Correct the file, or leave such lines out by onBadRecord: skip"
        f"{reported}"
    )


def _head(path: str, scan: Scan, field: str, opened: Opener, most: int | None) -> pa.Schema | None:
    """Return the columns of a file's first rows, skipping bad ones if allowed."""
    options = scan.options_as(JsonOptions)
    if options.lines:
        lines = head_of(path, opened, most).lines
        schema = _said(options.types, lines)
        parse = partial(_of_lines, schema=schema, extra="infer")
        if not scan.skips_bad:
            return told_types(parse(lines)) if lines.strip() else None
        cut = partial(cut_objects, following=iter(()))
        records = RecordBlock(path, 0, lines)
        return shared(parsed(records, parse, cut, skips_bad=True), path, field)
    try:
        rows = _listed(path, opened)
    except ValueError:
        if scan.skips_bad:
            return None
        raise
    untold = [_without_values(row, options.types) for row in rows]
    if not scan.skips_bad:
        return told_types(_tabulated(untold, None)) if rows else None
    found = salvage(untold, partial(_tabulated, schema=None))
    return shared((each for each in found if not isinstance(each, tuple)), path, field)


def _said(types: Mapping[str, ColumnType], lines: bytes) -> pa.Schema | None:
    """Return the columns with types in the TrainingRun; None without any.

    Columns of float64 stay boolean if all values are, as Arrow refuses them as floats, and have no
    type without a value.
    """
    schema = declared(types)
    if schema is None:
        return None
    left = {name for name, kind in types.items() if kind == "float64"}
    found: dict[str, pa.DataType] = dict.fromkeys(left, pa.null())
    for line in lines.removeprefix(_BOM).split(b"\n"):
        if not left:
            break
        row = _object(line)
        for name in [name for name in left if row.get(name) is not None]:
            if isinstance(row[name], bool):
                found[name] = pa.bool_()
            else:
                found[name] = pa.float64()
                left.discard(name)
    return pa.schema([each.with_type(found.get(each.name, each.type)) for each in schema])


def _object(line: bytes) -> Mapping[str, object]:
    """Return the object of a line; nothing if the parser finds none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _without_values(row: object, types: Mapping[str, str]) -> object:
    """Return an empty row whose types come from the TrainingRun."""
    if not isinstance(row, dict):
        return row
    return {name: None if name in types else value for name, value in row.items()}


def _parsed(
    fragment: Fragment, scan: Scan, columns: Sequence[str], opened: Opener
) -> Iterator[pa.Table | BadRecord]:
    assert scan.schema
    schema = pa.schema([scan.schema.field(name) for name in columns]) if columns else scan.schema
    path, types = fragment.path, scan.options_as(JsonOptions).types
    if not scan.options_as(JsonOptions).lines:
        parse_rows = partial(
            _tabulated, schema=schema, floats=scan.floats, types=types, only_some=bool(columns)
        )
        yield from _parsed_list(path, parse_rows, opened)
        return
    extra = "ignore" if columns else "error"
    parse = partial(_of_lines, schema=schema, extra=extra, floats=scan.floats, types=types)
    blocks = line_blocks(fragment, opened)
    cut = partial(cut_objects, following=blocks)
    for place, block in blocks:
        records = RecordBlock(path, place, block)
        for found in parsed(records, parse, cut, skips_bad=scan.skips_bad):
            yield _told(found) if isinstance(found, BadRecord) else found


def cut_objects(text: bytes, following: Iterator[tuple[int, bytes]]) -> list[bytes]:
    """Return the records of a text: lines, with objects over several lines joined.

    A line inside of such an object may itself be an object, but is not a row.

    Args:
        text: complete lines.
        following: later blocks, which are read while an object may continue.
    """
    lines, records, at = cut_lines(text), list[bytes](), 0
    while at < len(lines):
        count = _num_lines_of_object(lines, at, following)
        records.append(b"".join(lines[at : at + count]))
        at += count
    return records


def _num_lines_of_object(
    lines: list[bytes], at: int, following: Iterator[tuple[int, bytes]]
) -> int:
    """Return the number of lines of the object that begins on a line; 1 if there is none."""
    begin, count = lines[at].strip(), 2
    if not begin.startswith(b"{") or begin.endswith(b"}"):
        return 1
    while True:
        while at + count > len(lines):
            if (more := next(following, None)) is None:
                break
            lines += cut_lines(more[1])
        text = b"".join(lines[at : at + count]).strip()
        try:
            _, end = _DECODER.raw_decode(text.decode())
        except json.JSONDecodeError as error:
            # A syntax error before the end cannot be repaired by more lines.
            if error.pos < len(error.doc) or at + count > len(lines):
                return 1
            count *= 2
        except (UnicodeDecodeError, RecursionError):
            return 1
        else:
            return text.decode()[:end].count("\n") + 1


def _told(bad: BadRecord) -> BadRecord:
    return replace(bad, reason=f"{bad.reason}; options.types names types of columns, and columns")


def _of_lines(
    block: bytes,
    *,
    schema: pa.Schema | None,
    extra: str,
    floats: Collection[str] | None = None,
    types: Mapping[str, ColumnType] = MappingProxyType({}),
) -> pa.Table:
    """Return the rows of lines.

    Args:
        block: complete lines.
        schema: of the columns; None to infer it.
        extra: handling of other columns: error, ignore or infer.
        floats: columns that may lack values although they are boolean; None for any column.
        types: from the TrainingRun.

    Raises:
        pyarrow.ArrowException: for invalid JSON, or another schema.
        ValueError: for lines that are not one object each. Arrow accepts some of these, and a
            single `null` crashes the process.
    """
    block = block.removeprefix(_BOM)
    objects = block.startswith(b"{") + block.count(b"\n{")
    lines = num_lines(block, likely=objects)
    if not lines and schema is not None:
        return schema.empty_table()
    if objects < lines and _NO_OBJECT.search(block):
        raise ValueError("expected an object on each line")
    # A larger block than the text, or it would be split in the middle of an object.
    reading = pajson.ReadOptions(use_threads=False, block_size=len(block) + 1)

    def parse(kinds: pa.Schema | None) -> pa.Table:
        parsing = pajson.ParseOptions(explicit_schema=kinds, unexpected_field_behavior=extra)
        return pajson.read_json(pa.BufferReader(block), reading, parsing)

    table = (
        _inferred_types(parse(None)) if schema is None else parsed_as(schema, floats or (), parse)
    )
    if table.num_rows != lines:
        raise ValueError("expected one object on each line, and all of it")
    table.validate(full=True)  # checks UTF-8, which Arrow's parser does not
    if floats is not None:
        refuse_missing(table, floats)
        refuse_rounded(table, types, partial(_written, block))
    return table


def _inferred_types(table: pa.Table) -> pa.Table:
    """Return a table with the types of columns; nested ones, and those of times, have no values.

    Arrow takes strings for times if all of them look so, and loses nulls that begin a list.
    """
    kinds = [as_texts(each.type, pa.types.is_timestamp) for each in table.schema]
    columns = [
        column
        if kind == column.type and not pa.types.is_nested(kind)
        else pa.nulls(table.num_rows, kind)
        for kind, column in zip(kinds, table.columns, strict=True)
    ]
    return pa.table(columns, table.column_names)


def _written(block: bytes, name: str, rows: NDArray[np.int64]) -> Iterator[object]:
    """Yield the values of a column in some rows."""
    objects = [line for line in block.split(b"\n") if line.strip()]
    return (_object(objects[row]).get(name) for row in rows.tolist())


def _parsed_list(
    path: str, parse: Callable[[Sequence[object]], pa.Table], opened: Opener
) -> Iterator[pa.Table | BadRecord]:
    try:
        rows = _listed(path, opened)
    except ValueError as error:
        yield BadRecord(path, "the file", str(error))
        return
    for found in salvage(rows, parse):
        if isinstance(found, tuple):
            at, reason = found
            yield _told(BadRecord(path, f"row {at}", reason))
        else:
            yield found


def _listed(path: str, opened: Opener) -> list[object]:
    """Return the elements of a file's list.

    Raises:
        ValueError: for a file with anything else.
    """
    with opened(path, WHOLE) as raw:
        rows = value_of(unpacked(path, raw).read())
    if not isinstance(rows, list):
        raise ValueError("expected one list of objects")
    return rows


def value_of(text: bytes) -> object:
    """Return parsed JSON.

    Raises:
        ValueError: for invalid JSON, a number that is infinite as float64, or too deep nesting.
    """
    try:
        return json.loads(text, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"got {text}; expected a number that float64 holds")
    return number


def _tabulated(
    rows: Sequence[object],
    schema: pa.Schema | None,
    floats: Collection[str] = (),
    types: Mapping[str, ColumnType] = MappingProxyType({}),
    *,
    only_some: bool = False,
) -> pa.Table:
    """Return rows as a table.

    Args:
        rows: of a list.
        schema: columns and types; None to infer them.
        floats: columns that may lack values although they are boolean.
        types: from the TrainingRun.
        only_some: whether rows may have other columns.

    Raises:
        ValueError: for a row that is not an object, or that has other columns.
        pyarrow.ArrowException: for a row of another schema.
    """
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, not a {type(row).__name__}")
    objects = [row for row in rows if isinstance(row, dict)]
    if schema is None:  # Arrow uses the columns of the first one
        names = dict.fromkeys(name for row in objects for name in row)
        return pa.table({name: _inferred([row.get(name) for row in objects]) for name in names})
    if rounding := {name for name, kind in types.items() if kind == "float64"}:
        objects = [
            {name: _as_floats(each) if name in rounding else each for name, each in row.items()}
            for row in objects
        ]

    def parse(kinds: pa.Schema) -> pa.Table:
        known = {each.name: _known(each.type) for each in kinds}
        fitted = [_fitted(row, known, only_some=only_some) for row in objects]
        return pa.Table.from_pylist(fitted, schema=kinds)

    table = parsed_as(schema, floats, parse)
    refuse_missing(table, floats)
    return table


def _inferred(values: list[object]) -> pa.Array:
    """Return a column with a type; floats if integers have no type that holds all values."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array([_as_floats(value) for value in values])


def _as_floats(value: object) -> object:
    """Return a value with floats for integers beyond 2**53, also in lists and objects."""
    if isinstance(value, list):
        return [_as_floats(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_floats(each) for name, each in value.items()}
    return float(value) if isinstance(value, int) and abs(value) > MOST_EXACT else value


def _known(kind: pa.DataType) -> _Known:
    if pa.types.is_struct(kind):
        return {field.name: _known(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _known(kind.value_type)
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


def _fitted(value: object, known: _Known, column: str = "", *, only_some: bool) -> object:
    """Return a value for Arrow, which would drop fields, and round or refuse numbers.

    Raises:
        ValueError: for a field that is not known, a fraction among integers, or a boolean.
        pyarrow.ArrowNotImplementedError: for an integer that floats round.
    """
    if known is None or value is None:
        return value
    if isinstance(value, list):
        return [_fitted(each, known, column, only_some=only_some) for each in value]
    if isinstance(known, Mapping):
        if not isinstance(value, dict):
            return value
        above = f"{column}." if column else ""
        if not only_some and (unknown := value.keys() - known.keys()):
            raise ValueError(f"the first rows have no column {above}{min(unknown)}")
        return {
            name: _fitted(value.get(name), inside, f"{above}{name}", only_some=only_some)
            for name, inside in known.items()
        }
    if isinstance(value, bool):
        raise ValueError(f"column {column}: got {json.dumps(value)}; expected a number")
    if isinstance(value, float) and pa.types.is_integer(known):
        raise ValueError(f"column {column}: got {value}; expected an integer")
    if pa.types.is_integer(known):
        return value
    refuse_inexact(value, known, column)
    return _as_floats(value)
