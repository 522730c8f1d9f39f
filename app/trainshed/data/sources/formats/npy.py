"""NumPy files: the first axis of an array is the row."""

from __future__ import annotations

import io
import tokenize
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

COLUMN = "data"
FRAGMENT_BYTES = 16 * 2**20
HEADS_AT_ONCE = 16
# Factor of a file's size that its header may state: allows for truncated uploads.
MOST_PROMISED = 1024
# Maximum size of an array in Fortran order, which a task reads whole.
MOST_FORTRAN_BYTES = 2**30
# Python's error for a header, which it parses as code, of 10,000 characters at most.
_NO_HEADER = (SyntaxError, TypeError, tokenize.TokenError, RecursionError, MemoryError)


class _Header(NamedTuple):
    """The bytes before the values of an array."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[np.generic]


class _Head(NamedTuple):
    """A file's header: shape, value type, start of the values, and whether columns are adjacent."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    start: int
    is_fortran: bool

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape[1:])


class Npy(Format):
    """Arrays of numbers, in the column `data`."""

    suffixes = (".npy",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment]]:
        def head(file: Found) -> _Head:
            try:
                return _promised(file, _head(file.where, opened))
            except ValueError as error:
                expected = "an array of numbers with rows, as numpy.save writes it"
                expected += f". Reported: {error}"
                raise SpecError([Problem(f"{field}.path", file.where, expected)]) from error

        with ThreadPoolExecutor(HEADS_AT_ONCE) as pool:
            heads = list(pool.map(head, files))
        for file, found in zip(files, heads, strict=True):
            if (found.shape[1:], found.dtype) != (heads[0].shape[1:], heads[0].dtype):
                got = f"rows of {found.dtype}{list(found.shape[1:])} in {file.where}"
                expected = f"{heads[0].dtype}{list(heads[0].shape[1:])} as in {files[0].where}"
                raise SpecError([Problem(f"{field}.path", got, expected)])
        kind = pa.from_numpy_dtype(heads[0].dtype)
        if shape := heads[0].shape[1:]:
            kind = pa.fixed_shape_tensor(kind, shape)
        return replace(scan, schema=pa.schema([(COLUMN, kind)])), [
            fragment
            for number, (file, found) in enumerate(zip(files, heads, strict=True))
            for fragment in _cut(file.where, number, found)
        ]

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, _, _, chunk_rows, opened = read
        assert fragment.span
        with opened(fragment.path, [fragment.span]) as raw:
            head = _read_head(raw)
            raw.seek(fragment.span[0])
            left = fragment.rows or 0
            if head.is_fortran:
                yield from _transposed(fragment.path, head, raw.read(), chunk_rows)
                return
            while left:
                rows = min(chunk_rows, left)
                content = raw.read(rows * head.row_bytes)
                whole = len(content) // head.row_bytes
                if whole:
                    content = content[: whole * head.row_bytes]
                    values = np.frombuffer(content, dtype=head.dtype)
                    # torch has no tensors with the other byte order.
                    values = values.astype(head.dtype.newbyteorder("="), copy=False)
                    yield {COLUMN: values.reshape(whole, *head.shape[1:])}
                left -= whole
                if whole < rows:
                    place = f"row {(fragment.rows or 0) - left} from byte {fragment.span[0]} on"
                    yield BadRecord(fragment.path, place, f"the file ends {left} rows early", left)
                    return


def _transposed(
    path: str, head: _Head, content: bytes, chunk_rows: int
) -> Iterator[Columns | BadRecord]:
    """Yield the rows of an array in Fortran order, each of which is spread over the whole file."""
    rows = head.shape[0]
    if len(content) < rows * head.row_bytes:
        yield BadRecord(path, "the file", "it ends early, within all of its rows", rows)
        return
    values = np.ndarray(head.shape, head.dtype, content, order="F")
    for first in range(0, rows, chunk_rows):
        chunk = values[first : first + chunk_rows]
        yield {COLUMN: chunk.astype(head.dtype.newbyteorder("="), order="C")}


def _cut(where: str, number: int, head: _Head) -> Iterator[Fragment]:
    rows = head.shape[0]
    step = max(1, rows if head.is_fortran else FRAGMENT_BYTES // head.row_bytes)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        start = head.start + first * head.row_bytes
        num_bytes = count * head.row_bytes
        yield Fragment(where, number, (), count, num_bytes, (start, start + num_bytes))


def _promised(file: Found, head: _Head) -> _Head:
    """Return a header unless its size is far beyond the file's, or too large to read whole."""
    size = head.shape[0] * head.row_bytes
    if size > MOST_PROMISED * file.bytes:
        raise ValueError(f"its header states {head.shape[0]} rows, and it has {file.bytes} bytes")
    if head.is_fortran and size > MOST_FORTRAN_BYTES:
        raise ValueError(
            f"{size} bytes in Fortran order, of which at most {MOST_FORTRAN_BYTES} are read: save "
            "numpy.ascontiguousarray of it"
        )
    return head


def _head(where: str, opened: Opener) -> _Head:
    with opened(where) as raw:
        return _read_head(raw)


def _read_head(raw: pa.NativeFile) -> _Head:
    shape, is_fortran, dtype = _read_header(raw)
    if min(shape, default=1) < 0 or 0 in shape[1:]:
        raise ValueError(f"rows of the shape {list(shape[1:])}, {shape[0]} of them")
    if not shape or dtype.hasobject:
        raise ValueError("no rows" if not shape else "objects, which are not read")
    if dtype.kind not in "biuf":
        raise ValueError(f"values of {dtype}")
    return _Head(shape, dtype, raw.tell(), is_fortran and len(shape) > 1)


def _read_header(raw: pa.NativeFile | io.BytesIO) -> _Header:
    version = np.lib.format.read_magic(raw)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format")
    try:
        return _Header(*read(raw))
    except _NO_HEADER as error:
        raise ValueError("its header cannot be parsed") from error


def array_of(content: bytes) -> NDArray[np.generic]:
    """Return the array of a whole file.

    Raises:
        ValueError: if it is invalid, has objects, or fewer values than its header states.
    """
    raw = io.BytesIO(content)
    shape, is_fortran, dtype = _read_header(raw)
    if dtype.hasobject:
        raise ValueError("objects, which are not read")
    start, promised = raw.tell(), dtype.itemsize * prod(shape)
    if promised > len(content) - start:
        there = len(content) - start
        raise ValueError(f"its header states {promised} bytes of values, and it has {there}")
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    try:
        return np.ndarray(shape, dtype, content, start, order=order).copy(order)
    except OverflowError as error:
        raise ValueError(f"values of the shape {list(shape)}") from error
