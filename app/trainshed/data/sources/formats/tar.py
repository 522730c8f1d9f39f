"""Reads the members of a tar file in order, and checks that it is complete.

tarfile takes a broken header for the end of the file, and would lose the rest silently.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.line_files import read_up_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Bytes to read at once, and maximum to hold of skipped members.
BUFFER_BYTES = 2**20
# Maximum bytes of a wanted member in memory: a MB of gzip may hold a GB of zeros.
MOST_MEMBER_BYTES = 2**30
_BLOCK = tarfile.BLOCKSIZE
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
# Member types with fields that exceed the next header.
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_RECORDS, _RECORDS_FOR_ALL = tarfile.XHDTYPE, tarfile.XGLTYPE
# tar options that store files instead of links; skipping a link would lose the file's data.
_LINKS = {
    tarfile.LNKTYPE: ("hard", "--hard-dereference"),
    tarfile.SYMTYPE: ("symbolic", "--dereference"),
}
_WITH_CONTENT = (*_FILES, _LONG_NAME, _LONG_LINK, _RECORDS, _RECORDS_FOR_ALL)
# Maximum bytes of such fields, and of the length of each record: names, dates, owners.
_MOST_HEAD_BYTES, _LENGTH_DIGITS, _SIZE_DIGITS = 2**20, 8, 20


class Member(NamedTuple):
    """A file in a tar file, the position of its header, and its content if wanted."""

    name: str
    content: bytes
    place: int
    num_bytes: int


class Tape:
    """The stream of a tar file.

    Args:
        stream: of the decompressed file.
        can_seek: whether to skip by seeking if the stream supports it; useless for prefetched
            streams.
    """

    def __init__(self, stream: pa.NativeFile, *, can_seek: bool = False) -> None:
        self.place = 0
        self._stream = stream
        self._can_seek = can_seek and stream.seekable()
        self._buffered = pa.BufferedInputStream(stream, BUFFER_BYTES)

    def read(self, num_bytes: int) -> bytes:
        """Return this many of the next bytes, fewer only at the end."""
        found = read_up_to(self._buffered, num_bytes)
        self.place += len(found)
        return found

    def skip(self, num_bytes: int) -> int:
        """Skip this many of the next bytes; return how many there were."""
        begin, end = self.place, self.place + num_bytes
        if self._can_seek and num_bytes > BUFFER_BYTES:
            self.place = min(end, self._stream.size())
            self._buffered.detach()  # its finalizer would close the file
            self._stream.seek(self.place)
            self._buffered = pa.BufferedInputStream(self._stream, BUFFER_BYTES)
            return self.place - begin
        while self.place < end and self.read(min(BUFFER_BYTES, end - self.place)):
            pass
        return self.place - begin


def members(tape: Tape, path: str, wants: Callable[[str], bool]) -> Iterator[Member]:
    """Yield the files of a tar file in order, without folders.

    Args:
        tape: the file's stream.
        path: of the file, for errors.
        wants: predicate of a name whose content is wanted; other content is skipped.

    Raises:
        DataError: with file and position, for an invalid header, a truncated member, a link to a
            file, a wanted file that is too large, and a file without the empty block at its
            end.
    """
    name, size, is_ended = "", None, False
    while True:
        begin = tape.place
        header = tape.read(_BLOCK)
        if is_ended and not any(header) and len(header) < _BLOCK:
            return
        where = f"{path}: tar from byte {begin}"
        if len(header) < _BLOCK:
            raise _cut_off(where, _BLOCK - len(header))
        # Another archive may follow the end of one.
        is_ended = not any(header)
        if is_ended:
            continue
        info = _header(header, where)
        where = f"{path}: member {name or info.name} from byte {begin}"
        if info.type not in _WITH_CONTENT:
            _check_passed_over(info, name or info.name, where)
            name, size = "", None
            continue
        is_file = info.type in _FILES
        length = size if is_file and size is not None else info.size
        if length < 0 or (not is_file and length > _MOST_HEAD_BYTES):
            raise DataError(f"{where}: a header of {length} bytes")
        is_wanted = not is_file or wants(name or info.name)
        content = _content(tape, length, where, is_wanted=is_wanted)
        if info.type == _LONG_NAME:
            name = _text(content.partition(b"\0")[0])
        elif info.type == _RECORDS:
            records = _records(content, where)
            name = records.get("path", name)
            size = _number(records["size"], where) if "size" in records else size
        elif is_file:
            yield Member(name or info.name, content, begin, length)
            name, size = "", None


def _check_passed_over(info: tarfile.TarInfo, name: str, where: str) -> None:
    """Refuse members without content that a row may need."""
    if info.type == tarfile.GNUTYPE_SPARSE:
        raise DataError(f"{where}: files with holes are not read")
    # A name with a suffix is that of a file rather than a folder.
    if info.type in _LINKS and "." in name.rpartition("/")[2].lstrip("."):
        kind, option = _LINKS[info.type]
        raise DataError(
            f"{where}: a {kind} link to {info.linkname} is not read: tar {option} packs "
            "files as they are"
        )


def _content(tape: Tape, length: int, where: str, *, is_wanted: bool) -> bytes:
    """Return the content of a member, empty if not wanted, and move to the next one."""
    if is_wanted and length > MOST_MEMBER_BYTES:
        raise DataError(
            f"{where}: its {length} bytes are more than {MOST_MEMBER_BYTES}, the most that a "
            "member may have that is read; name the columns that are wanted in read.columns"
        )
    content = tape.read(length) if is_wanted else b""
    there = len(content) if is_wanted else tape.skip(length)
    if there < length:
        raise _cut_off(where, length - there)
    padding = -length % _BLOCK
    if (there := tape.skip(padding)) < padding:
        raise _cut_off(where, padding - there)
    return content


def _header(block: bytes, where: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise DataError(f"{where}: no header of a member: {error}") from error


def _cut_off(where: str, num_bytes: int) -> DataError:
    return DataError(f"{where}: the file ends {num_bytes} bytes early")


def _records(content: bytes, where: str) -> dict[str, str]:
    """Return the records of lines `length key=value`, where length counts the whole line."""
    found, place = {}, 0
    while place < len(content):
        length, space, _ = content[place : place + _LENGTH_DIGITS].partition(b" ")
        if not (space and length.isdigit() and int(length) > len(length)):
            raise DataError(f"{where}: no records of a header")
        line = content[place + len(length) + 1 : place + int(length) - 1]
        key, _, value = line.partition(b"=")
        found[_text(key)] = _text(value)
        place += int(length)
    return found


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _SIZE_DIGITS):
        raise DataError(f"{where}: no size of a member")
    return int(text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
