"""Files of lines: cut at bytes, each line read by the task in whose bytes it begins."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.listing import ending_of
from trainshed.storage.byte_ranges import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# Of a file that one task reads: what the shuffle of blocks moves.
SPAN_BYTES = 16 * 2**20
# Parsed at once.
BLOCK_BYTES = 4 * 2**20
# Of a few files, by which types and numbers of rows are told.
HEAD_BYTES = 2**20
# Of one line, which one process holds: a file of zeros, packed, is one without an end.
MOST_LINE_BYTES = 2**27
# Looked at for the end of a line.
LINE_BYTES = 2**16
# Asked for at once where a file says how much comes.
PIECE_BYTES = 16 * 2**20
# By how a file ends. No line can be found in the middle of what is packed.
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def with_packed(*suffixes: str) -> tuple[str, ...]:
    """Return the endings of files, packed ones too."""
    return (*suffixes, *(f"{suffix}{packed}" for suffix in suffixes for packed in _PACKED))


def is_packed(path: str) -> bool:
    """Say whether a file's bytes are packed."""
    return ending_of(path).endswith(tuple(_PACKED))


def cut_files(files: Sequence[Found], *, whole: bool = False) -> list[Fragment]:
    """Return what tasks read: neighbouring bytes of a file each; whole: one task a file."""
    fragments = []
    for number, file in enumerate(files):
        if whole or is_packed(file.where) or file.bytes <= SPAN_BYTES:
            fragments.append(Fragment(file.where, number, (), None, file.bytes))
            continue
        for start in range(0, file.bytes, SPAN_BYTES):
            span = (start, min(start + SPAN_BYTES, file.bytes))
            fragments.append(Fragment(file.where, number, (), None, span[1] - span[0], span))
    return fragments


class LineStream(Protocol):
    """What is read from its beginning to its end."""

    def read(self, nbytes: int, /) -> bytes:
        """Return so many of the next bytes, fewer only where it ends."""


class Head(NamedTuple):
    """The first lines of a file, whole, and how many bytes they have as they are stored."""

    lines: bytes
    stored: int


def first_bytes(path: str, opened: Opener, most: int) -> bytes:
    """Return so many bytes of an unpacked file; more of it where its first line is longer."""
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


def head_of(path: str, opened: Opener) -> Head:
    """Return the first lines of a file; all of it where it has one line."""
    with opened(path, [(0, HEAD_BYTES)]) as raw:
        stream = unpacked(path, raw)  # which closes the file once nobody has it
        start = _first_bytes(path, stream, HEAD_BYTES)
        stored = raw.tell() if is_packed(path) else len(start)
    end = start.rfind(b"\n") + 1
    whole = start[:end] if end and len(start) >= HEAD_BYTES else start
    return Head(whole, max(1, round(stored * len(whole) / max(1, len(start)))))


def stored_share(path: str, opened: Opener) -> float:
    """Return how many bytes are stored for each that a file holds, by its beginning."""
    if not is_packed(path):
        return 1.0
    with opened(path) as raw:
        stream = unpacked(path, raw)  # which closes the file once nobody has it
        start = stream.read(HEAD_BYTES)
        return float(raw.tell()) / max(1, len(start))


def line_blocks(fragment: Fragment, opened: Opener) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines that begin in a fragment, with the place of the first one in its file.

    The place is of the unpacked file. A last line without an end gets none.
    """
    span = fragment.span
    # The last line that begins there ends behind it; mostly not far.
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
    """Say whether no line of the file begins after those of a fragment."""
    if fragment.span is None:
        return True
    with opened(fragment.path) as raw:
        raw.seek(_line_at(raw, fragment.span[1]))
        return not raw.read(1)


def unpacked(path: str, raw: pa.NativeFile) -> pa.NativeFile:
    """Return what a file holds once it is unpacked; the file itself where it is not packed."""
    ending = next((ending for ending in _PACKED if ending_of(path).endswith(ending)), None)
    return pa.CompressedInputStream(raw, _PACKED[ending]) if ending else raw


def read_up_to(stream: LineStream, num_bytes: int) -> bytes:
    """Return so many of the next bytes, fewer only where they end.

    In pieces: memory for as many as a file says it has would be taken before they are there.
    """
    found = stream.read(min(num_bytes, PIECE_BYTES))
    if len(found) in {0, num_bytes}:
        return found
    whole = io.BytesIO()  # grows in its place: pieces that are joined are held twice
    while found:
        whole.write(found)
        found = stream.read(min(num_bytes - whole.tell(), PIECE_BYTES))
    return whole.getvalue()


def _line_at(raw: pa.NativeFile, place: int) -> int:
    """Return where the first line begins that does so at a place or after it."""
    if place == 0:
        return 0
    place -= 1  # the line begins there where the byte before ends another
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
    """Yield what is read from a place to an end, cut after lines."""
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
