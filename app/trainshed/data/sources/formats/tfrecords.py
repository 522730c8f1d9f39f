"""TFRecord files: an Example each, after its length, both with checksums."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.example import Feature, read_example
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.line_files import (
    COMPRESSED,
    GZIP,
    HEAD_BYTES,
    read_up_to,
    stored_share,
    unpacked,
    with_packed,
)
from trainshed.data.sources.formats.shared_types import some_files
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError, one_of
from trainshed_api.formats import TfrecordsOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.data.sources.formats.example import Kind
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# Bytes of a file from which its columns are inferred.
HEAD_RECORDS = 32
BUFFER_BYTES = 2**20
_LENGTH = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_MASK = 0xA282EAD8
_ARROW: dict[Kind, pa.DataType] = {
    "bytes": pa.binary(),
    "float": pa.float32(),
    "int64": pa.int64(),
}
_DTYPES: dict[Kind, type[np.generic]] = {
    "bytes": np.object_,
    "float": np.float32,
    "int64": np.int64,
}
REMEDY = "options.lengths may say how many values a column has, 0 for any number"


class _Head(NamedTuple):
    """The first records of a file, and their stored size."""

    records: list[dict[str, Feature]]
    stored: float


class Tfrecords(Format):
    """Records whose columns are the features of their Examples."""

    suffixes = with_packed(".tfrecord", ".tfrecords", ".tfrec")
    unmoving = ("lengths",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, None]:
        heads = []
        for file in some_files(files):
            try:
                heads += _head(file.where, opened, skips_bad=scan.skips_bad).records
            except DataError as error:
                expected = f"TFRecords cannot be read: {error}"
                raise SpecError([Problem(f"{field}.path", None, expected)]) from error
        schema = _schema(heads, scan.options_as(TfrecordsOptions), field)
        # Only the records before it tell where a record begins: one task reads a file.
        return replace(scan, schema=schema), None

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, scan, columns, chunk_rows, opened = read
        assert scan.schema
        wanted = [scan.schema.field(name) for name in columns or scan.schema.names]
        with opened(fragment.path, WHOLE) as raw:
            rows: list[tuple[int, dict[str, Feature]]] = []
            stream = unpacked(fragment.path, raw)
            for found in _examples(stream, fragment.path, frozenset(columns)):
                is_bad = isinstance(found, BadRecord)
                if rows and (is_bad or len(rows) == chunk_rows):
                    yield _columns(fragment.path, rows, wanted)
                    rows = []
                if isinstance(found, BadRecord):
                    yield found
                else:
                    rows.append(found[:2])
            if rows:
                yield _columns(fragment.path, rows, wanted)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        head = _head(fragment.path, opened, skips_bad=scan.skips_bad)
        return len(head.records) / max(1.0, head.stored)


def _records(stream: pa.NativeFile, path: str) -> Iterator[tuple[int, bytes] | BadRecord]:
    """Yield each record with its position in the decompressed file, and each bad one.

    A record with an invalid length is the last one, as no later one can be found.
    """
    source, place = pa.BufferedInputStream(stream, BUFFER_BYTES), 0

    def bad(reason: str) -> BadRecord:
        return BadRecord(path, f"record at byte {place}", reason)

    while head := source.read(_LENGTH.size):
        if len(head) < _LENGTH.size:
            yield bad("the file ends in its length")
            return
        length, check = _LENGTH.unpack(head)
        if _masked_crc(head[:8]) != check:
            is_packed = place == 0 and head.startswith(GZIP)
            yield bad(COMPRESSED if is_packed else "its length does not fit its checksum")
            return
        record, end = read_up_to(source, length), source.read(_CHECK.size)
        if len(end) < _CHECK.size:
            yield bad(f"the file ends in its {length} bytes")
            return
        if (_masked_crc(record),) == _CHECK.unpack(end):
            yield place, record
        else:
            yield bad(f"its {length} bytes do not fit their checksum")
        place += _LENGTH.size + length + _CHECK.size


def _masked_crc(data: bytes) -> int:
    """Return TensorFlow's masked CRC, as a CRC of data with a CRC is weak."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def _examples(
    stream: pa.NativeFile, path: str, names: frozenset[str]
) -> Iterator[tuple[int, dict[str, Feature], int] | BadRecord]:
    """Yield each Example with position and bytes of its record, and each bad record."""
    for found in _records(stream, path):
        if isinstance(found, BadRecord):
            yield found
            continue
        place, record = found
        try:
            example = read_example(record, names)
        except ValueError as error:
            yield BadRecord(path, f"record at byte {place}", f"no tf.train.Example: {error}")
        else:
            yield place, example, _LENGTH.size + len(record) + _CHECK.size


def _head(path: str, opened: Opener, *, skips_bad: bool) -> _Head:
    records, end = [], 0
    with opened(path) as raw:
        for found in _examples(unpacked(path, raw), path, frozenset()):
            if isinstance(found, BadRecord):
                if not skips_bad:
                    raise DataError(found.say())
                continue
            place, example, size = found
            records.append(example)
            end = place + size
            if len(records) == HEAD_RECORDS or end >= HEAD_BYTES:
                break
    return _Head(records, end * stored_share(path, opened))


def _schema(
    records: Sequence[Mapping[str, Feature]], options: TfrecordsOptions, field: str
) -> pa.Schema:
    """Return the columns, from the first records of some files."""
    kinds: dict[str, Kind] = {}
    lengths: dict[str, set[int]] = {}
    for record in records:
        for name, feature in record.items():
            kind = kinds.setdefault(name, feature.kind)
            if feature.kind != kind:
                expected = f"values of one type in column {name}"
                got = f"{feature.kind} beside {kind}"
                raise SpecError([Problem(f"{field}.path", got, expected)])
            lengths.setdefault(name, set()).add(len(feature.values))
    if not kinds:
        expected = "Examples with at least one feature in the first records of some files"
        raise SpecError([Problem(f"{field}.path", "records without features", expected)])
    if unknown := [name for name in options.lengths if name not in kinds]:
        raise SpecError(
            [
                Problem(f"{field}.options.lengths", name, one_of(name, sorted(kinds)))
                for name in unknown
            ]
        )
    found = []
    for name, kind in sorted(kinds.items()):
        seen = lengths[name]
        length = options.lengths.get(name, seen.pop() if len(seen) == 1 else 0)
        found.append(pa.field(name, _typed(_ARROW[kind], length)))
    return pa.schema(found)


def _typed(kind: pa.DataType, length: int) -> pa.DataType:
    """Return the type of a column: scalars, arrays of fixed length, or lists of any length."""
    if length == 1:
        return kind
    return pa.list_(kind, length) if length else pa.list_(kind)


def _columns(
    path: str, rows: Sequence[tuple[int, dict[str, Feature]]], wanted: Sequence[pa.Field]
) -> Columns:
    return {column.name: _column(path, rows, column) for column in wanted}


def _column(path: str, rows: Sequence[tuple[int, dict[str, Feature]]], column: pa.Field) -> Array:
    """Return a column, shape (rows,) or (rows, values); of objects if lengths differ."""
    length, kind = _shape(column.type)
    dtype = _DTYPES[kind]
    is_number = kind != "bytes"
    shape = (len(rows), length) if is_number and length else (len(rows),)
    found = np.empty(shape, dtype=dtype if length else object)
    for row, (place, features) in enumerate(rows):
        values = _of_row(features.get(column.name), length, kind)
        if values is None:
            where = f"{path}: record at byte {place}: column {column.name}"
            got = _say(features.get(column.name))
            expected = f"{length or 'any number of'} {kind} values"
            raise DataError(f"{where}: it has {got} where others have {expected}; {REMEDY}")
        found[row] = values if is_number or length != 1 else values[0]
    return found.reshape(-1) if is_number and length == 1 else found


def _shape(kind: pa.DataType) -> tuple[int, Kind]:
    """Return the number of values of a row, 0 for any, and their kind."""
    length = 1
    if pa.types.is_fixed_size_list(kind):
        length, kind = kind.list_size, kind.value_type
    elif pa.types.is_list(kind):
        length, kind = 0, kind.value_type
    return length, next(name for name, arrow in _ARROW.items() if arrow == kind)


def _of_row(feature: Feature | None, length: int, kind: Kind) -> Array | None:
    """Return the values of a row, with NaN or None for missing ones; None for a mismatch."""
    values: Sequence[object] | Array
    if feature is None or not len(feature.values):
        if length and kind == "int64":
            return None
        values = [np.nan if kind == "float" else None] * length
    elif feature.kind != kind or length not in {0, len(feature.values)}:
        return None
    else:
        values = feature.values
    return np.asarray(values, dtype=_DTYPES[kind])


def _say(feature: Feature | None) -> str:
    return f"{len(feature.values)} {feature.kind} values" if feature else "no values"
