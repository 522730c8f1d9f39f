"""Tar files of samples: members with the same name up to the first dot are a row."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sources.column_arrays import as_objects
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.json import value_of
from trainshed.data.sources.formats.line_files import (
    HEAD_BYTES,
    stored_share,
    unpacked,
    with_packed,
)
from trainshed.data.sources.formats.npy import array_of
from trainshed.data.sources.formats.shared_types import some_files
from trainshed.data.sources.formats.tar import Tape, members
from trainshed.storage.addresses import is_remote
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import WebdatasetOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.data.sources.formats.tar import Member
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

KEY = "__key__"
# Bytes of a file from which its columns are inferred.
HEAD_SAMPLES = 32
# By the last part of an ending, as the tools that write such files decode them; never pickles,
# which may run code.
NUMBERS = ("cls", "cls2", "id", "index", "inx")
TEXTS = ("txt", "text", "transcript")
DECODED = (*NUMBERS, *TEXTS, "json", "npy")
_INT64 = np.iinfo(np.int64)
# Metadata files of those tools.
_META = re.compile(r"__[^/]*__(/|$)")


@dataclass(frozen=True)
class _Sample:
    """The members of a sample, by their endings in lower case."""

    path: str
    key: str
    members: dict[str, Member]

    def where(self, ending: str) -> str:
        """Return the location of a member, for errors."""
        member = self.members[ending]
        return f"{self.path}: member {member.name} from byte {member.place}"


class Webdataset(Format):
    """Samples, in the column `__key__` and one per ending."""

    suffixes = with_packed(".tar")
    unmoving = ("decode",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, None]:
        found: list[_Sample] = []
        options = scan.options_as(WebdatasetOptions)
        # A member that is not decoded is a column of bytes.
        wanted = DECODED if options.decode else ()
        try:
            for file in some_files(files):
                found += _head(file.where, opened, lambda ending: _kind(ending) in wanted)[0]
            schema = _schema(found, options)
        except DataError as error:
            where, _, told = str(error).partition(": ")
            expected = f"tar files of samples ({told})"
            raise SpecError([Problem(f"{field}.path", where, expected)]) from error
        if not found:
            expected = "members whose name has a dot: key.ending"
            raise SpecError([Problem(f"{field}.path", files[0].where, expected)])
        # Only the members before it tell where a member begins: one task reads a file.
        return replace(scan, schema=schema), None

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        fragment, scan, columns, chunk_rows, opened = read
        assert scan.schema
        wanted = [scan.schema.field(name) for name in columns or scan.schema.names]
        options, known = scan.options_as(WebdatasetOptions), frozenset(scan.schema.names)
        with opened(fragment.path, WHOLE) as raw:
            rows: list[_Sample] = []
            # From an address all bytes are prefetched, including skipped ones.
            tape = Tape(unpacked(fragment.path, raw), can_seek=not is_remote(fragment.path))
            wants = frozenset(columns or scan.schema.names).__contains__
            for sample in _samples(tape, fragment.path, wants):
                if not columns:
                    _check_known(sample, known)
                rows.append(sample)
                if len(rows) == chunk_rows:
                    yield _columns(rows, wanted, options)
                    rows = []
            if rows:
                yield _columns(rows, wanted, options)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        samples, end = _head(fragment.path, opened)
        return len(samples) / max(1.0, end * stored_share(fragment.path, opened))


def _samples(tape: Tape, path: str, wants: Callable[[str], bool]) -> Iterator[_Sample]:
    """Yield the samples of a tar file in order.

    Args:
        tape: the file's stream.
        path: of the file, for errors.
        wants: predicate of an ending whose content is wanted.

    Raises:
        DataError: with file and member, if it is incomplete, or members of a sample are not
            adjacent.
    """
    sample, done = _Sample(path, "", {}), set()

    def is_wanted(name: str) -> bool:
        parts = _split(name)
        return parts is not None and wants(parts[1])

    for member in members(tape, path, is_wanted):
        parts = _split(member.name)
        if parts is None:
            continue
        key, ending = parts
        if key != sample.key:
            if sample.members:
                yield sample
            done.add(sample.key)
            sample = _Sample(path, key, {})
        where = f"{path}: member {member.name} from byte {member.place}"
        if key in done:
            raise DataError(
                f"{where}: other samples are between it and the first of {key}: members of "
                "one name must be adjacent, as tar --sort=name packs them"
            )
        if ending in sample.members:
            raise DataError(f"{where}: it occurs twice")
        sample.members[ending] = member
    if sample.members:
        yield sample


def _split(name: str) -> tuple[str, str] | None:
    """Return the key and the ending of a member's name; None if it belongs to no sample."""
    folder, slash, file = name.rpartition("/")
    stem, dot, ending = file.partition(".")
    if not (stem and dot) or _META.match(name):
        return None
    return f"{folder}{slash}{stem}", ending.lower()


def _head(
    path: str, opened: Opener, wants: Callable[[str], bool] = lambda _: False
) -> tuple[list[_Sample], int]:
    """Return the first samples of a file, and their end in the decompressed file."""
    found, end = [], 0
    with opened(path) as raw:
        for sample in _samples(Tape(unpacked(path, raw), can_seek=True), path, wants):
            found.append(sample)
            end = max(each.place + each.num_bytes for each in sample.members.values())
            if len(found) == HEAD_SAMPLES or end >= HEAD_BYTES:
                break
    return found, end


def _schema(samples: Sequence[_Sample], options: WebdatasetOptions) -> pa.Schema:
    """Return the columns, from the first samples of some files."""
    kinds: dict[str, set[pa.DataType]] = {}
    for sample in samples:
        for ending in sample.members:
            value = _value(sample, ending, options)
            kinds.setdefault(ending, set()).add(_type_of(value, ending))
    fields = [
        # Arrays of several shapes are a column of objects.
        pa.field(ending, seen.pop() if len(seen) == 1 else pa.list_(pa.null()))
        for ending, seen in kinds.items()
    ]
    return pa.schema([pa.field(KEY, pa.string()), *fields])


def _type_of(value: object, ending: str) -> pa.DataType:
    if isinstance(value, np.ndarray):
        kind = pa.from_numpy_dtype(value.dtype)
        return pa.fixed_shape_tensor(kind, value.shape) if value.ndim else kind
    if isinstance(value, int) and _kind(ending) in NUMBERS:
        return pa.int64()
    # JSON values have no Arrow type: a column of objects, like texts.
    return pa.binary() if isinstance(value, bytes) else pa.string()


def _kind(ending: str) -> str:
    return ending.rpartition(".")[2]


def _value(sample: _Sample, ending: str, options: WebdatasetOptions) -> object:
    """Return the value of a member.

    Raises:
        DataError: with file and member, if it cannot be decoded.
    """
    content, kind = sample.members[ending].content, _kind(ending)
    if not options.decode:
        return content
    try:
        return _decoded(content, kind)
    except ValueError as error:
        expected = f"it is no {kind}: {' '.join(str(error).split())}"
        raise DataError(
            f"{sample.where(ending)}: {expected}; options.decode: false leaves it"
        ) from error


def _decoded(content: bytes, kind: str) -> object:
    if kind in NUMBERS:
        number = int(content)
        if not _INT64.min <= number <= _INT64.max:
            raise ValueError("a number that 64 bits do not hold")
        return number
    if kind in TEXTS:
        return content.decode()
    if kind == "json":
        return value_of(content)
    return array_of(content) if kind == "npy" else content


def _columns(
    rows: Sequence[_Sample], wanted: Sequence[pa.Field], options: WebdatasetOptions
) -> Columns:
    return {column.name: _column(rows, column, options) for column in wanted}


def _column(rows: Sequence[_Sample], column: pa.Field, options: WebdatasetOptions) -> Array:
    """Return a column, shape (rows, ...) if all values have one type and shape."""
    ending = column.name
    if ending == KEY:
        return as_objects([sample.key for sample in rows])
    is_tensor = isinstance(column.type, pa.FixedShapeTensorType)
    is_fixed = is_tensor or pa.types.is_primitive(column.type)
    values = []
    for sample in rows:
        value = _value(sample, ending, options) if ending in sample.members else None
        if is_fixed and value is None:
            raise DataError(f"{sample.path}: sample {sample.key} has no .{ending}, as others have")
        if is_fixed and _type_of(value, ending) != column.type:
            got = f"{_type_of(value, ending)} where others have {column.type}"
            raise DataError(f"{sample.where(ending)}: {got}")
        values.append(value)
    if is_fixed:
        dtype = (column.type.value_type if is_tensor else column.type).to_pandas_dtype()
        return np.asarray(values, dtype=dtype)
    return as_objects(values)


def _check_known(sample: _Sample, known: frozenset[str]) -> None:
    for ending in sample.members:
        if ending not in known:
            raise DataError(
                f"{sample.where(ending)}: the first samples have no .{ending}; name the columns "
                f"that are wanted in read.columns"
            )
