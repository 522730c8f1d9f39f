"""Files of lines, split at bytes: a task reads the lines that begin in its bytes."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa

from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.listing import ending_of
from trainshed.failures import is_passing
from trainshed.storage.byte_ranges import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# Bytes per task: the unit of the shuffle of blocks.
SPAN_BYTES = 16 * 2**20
# Bytes to parse at once.
BLOCK_BYTES = 4 * 2**20
# Bytes of a few files, to infer types and numbers of rows.
HEAD_BYTES = 2**20
# Maximum bytes of a line in memory: a compressed file of zeros is one endless line.
MOST_LINE_BYTES = 2**27
# Bytes to search for the end of a line.
LINE_BYTES = 2**16
# Bytes per read of a file with a known size.
PIECE_BYTES = 16 * 2**20
# Compressions by ending. A compressed file cannot be read from the middle.
_PACKED: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

GZIP: Final = b"\x1f\x8b"
COMPRESSED = "it is compressed by gzip, so its name has to end in .gz. Rename it"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def with_packed(*suffixes: str) -> tuple[str, ...]:
    """Return the endings of files, including compressed ones."""
    return (*suffixes, *(f"{suffix}{packed}" for suffix in suffixes for packed in _PACKED))


def is_packed(path: str) -> bool:
    """Return whether a file is compressed."""
    return ending_of(path).endswith(tuple(_PACKED))


def cut_files(files: Sequence[Found]) -> Iterable[Fragment] | None:
    """Return fragments of neighbouring bytes; None if each file is one."""
    return None if all(file.bytes <= SPAN_BYTES for file in files) else _cut(files)


def _cut(files: Sequence[Found]) -> Iterator[Fragment]:
    for number, file in enumerate(files):
        if file.bytes <= SPAN_BYTES or is_packed(file.where):
            yield Fragment(file.where, number, (), None, file.bytes)
            continue
        for start in range(0, file.bytes, SPAN_BYTES):
            span = (start, min(start + SPAN_BYTES, file.bytes))
            yield Fragment(file.where, number, (), None, span[1] - span[0], span)


class LineStream(Protocol):
    """A stream that is read from beginning to end."""

    def read(self, nbytes: int, /) -> bytes:
        """Return this many of the next bytes, fewer only at the end."""


class Head(NamedTuple):
    """The complete first lines of a file, and their stored size."""

    lines: bytes
    stored: int


def first_bytes(path: str, opened: Opener, most: int) -> bytes:
    """Return this many bytes of an uncompressed file, more if its first line is longer."""
    with opened(path) as raw:
        return _first_bytes(path, unpacked(path, raw), most)


def _first_bytes(path: str, stream: pa.NativeFile, most: int) -> bytes:
    start = bytes(stream.read(most))
    while len(start) >= most and b"\n" not in start:
        _check_line(path, 0, 2 * len(start))
        if not (more := bytes(stream.read(len(start)))):
            break
        start += more
    return start


def _check_line(path: str, place: int, num_bytes: int) -> None:
    if num_bytes > MOST_LINE_BYTES:
        raise DataError(
            f"{path}: the line from byte {place} on is longer than {MOST_LINE_BYTES} bytes, the "
            "most that a line may have"
        )


def head_of(path: str, opened: Opener, most: int | None = None) -> Head:
    """Return the first lines of a file; all of it if it has one line.

    most: bytes to read; None for the usual number.
    """
    most = min(most or HEAD_BYTES, HEAD_BYTES)
    with opened(path, [(0, most)]) as raw:
        stream = unpacked(path, raw)  # closes the file when it is garbage-collected
        try:
            start = _first_bytes(path, stream, most)
        except OSError as error:
            if is_packed(path) and not is_passing(error):
                raise DataError(
                    f"{path}: it is not compressed as its name says. Compress it, or take the last "
                    f"ending off its name. Reported: {error}"
                ) from error
            raise
        if start.startswith(GZIP) and not is_packed(path):
            raise DataError(f"{path}: {COMPRESSED}")
        if start.startswith(_UTF_16):
            raise DataError(f"{path}: it is encoded in UTF-16. Convert it to UTF-8")
        stored = raw.tell() if is_packed(path) else len(start)
    end = start.rfind(b"\n") + 1
    whole = start[:end] if end and len(start) >= most else start
    return Head(whole, max(1, round(stored * len(whole) / max(1, len(start)))))


def stored_share(path: str, opened: Opener) -> float:
    """Return stored bytes per decompressed byte, from the beginning of a file."""
    if not is_packed(path):
        return 1.0
    with opened(path) as raw:
        stream = unpacked(path, raw)  # closes the file when it is garbage-collected
        start = stream.read(HEAD_BYTES)
        return float(raw.tell()) / max(1, len(start))


def line_blocks(fragment: Fragment, opened: Opener) -> Iterator[tuple[int, bytes]]:
    """Yield complete lines that begin in a fragment, with the first one's position.

    Positions are in the decompressed file. A last line without a line end gets none.
    """
    span = fragment.span
    # The last line that begins there ends after it, mostly not far.
    ahead = WHOLE if span is None else [(max(0, span[0] - 1), span[1] + LINE_BYTES)]
    with opened(fragment.path, ahead) as raw:
        if span is None:
            yield from _whole_lines(fragment.path, unpacked(fragment.path, raw), 0, None)
            return
        begin = _line_at(raw, span[0])
        end = _line_at(raw, span[1])
        raw.seek(begin)
        yield from _whole_lines(fragment.path, raw, begin, end)


def ends_file(fragment: Fragment, opened: Opener) -> bool:
    """Return whether no line of the file begins after those of a fragment."""
    if fragment.span is None:
        return True
    with opened(fragment.path) as raw:
        raw.seek(_line_at(raw, fragment.span[1]))
        return not raw.read(1)


def unpacked(path: str, raw: pa.NativeFile) -> pa.NativeFile:
    """Return the decompressed stream of a file, or the file itself if it is not compressed."""
    ending = next((ending for ending in _PACKED if ending_of(path).endswith(ending)), None)
    return pa.CompressedInputStream(raw, _PACKED[ending]) if ending else raw


def read_up_to(stream: LineStream, num_bytes: int) -> bytes:
    """Return this many of the next bytes, fewer only at the end.

    In pieces, because a file's stated size may be wrong, and memory would be allocated for it.
    """
    found = stream.read(min(num_bytes, PIECE_BYTES))
    if len(found) in {0, num_bytes}:
        return found
    whole = io.BytesIO()  # grows in place: joining pieces would need twice the memory
    while found:
        whole.write(found)
        found = stream.read(min(num_bytes - whole.tell(), PIECE_BYTES))
    return whole.getvalue()


def _line_at(raw: pa.NativeFile, place: int) -> int:
    """Return the start of the first line at or after a position."""
    if place == 0:
        return 0
    place -= 1  # a line begins at the position if the byte before ends another
    raw.seek(place)
    while block := raw.read(LINE_BYTES):
        end = block.find(b"\n")
        if end >= 0:
            return place + int(end) + 1
        place += len(block)
    return place


def _whole_lines(
    path: str, raw: pa.NativeFile, place: int, end: int | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes between two positions, split after lines."""
    rest = b""
    left = None if end is None else end - place
    while True:
        block = raw.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if left is not None:
            left -= len(block)
        cut = block.rfind(b"\n") + 1
        if block and not cut:  # a line longer than a block
            rest += block
            _check_line(path, place, len(rest))
            continue
        lines = rest + block[:cut] if block else rest
        rest = block[cut:]
        if lines:
            yield place, lines
        place += len(lines)
        if not block:
            return
