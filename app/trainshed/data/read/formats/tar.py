"""The members of a tar file, one after the other, and whether it is whole.

tarfile takes a header that is broken for the end of the file, and so would lose the rest silently.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, NamedTuple

from trainshed.data.read.errors import DataError
from trainshed.data.read.formats.lines import read_up_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.data.read.formats.lines import Stream

_BLOCK = tarfile.BLOCKSIZE
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
# Members that say what the next one's header has no room for.
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_RECORDS, _RECORDS_FOR_ALL = tarfile.XHDTYPE, tarfile.XGLTYPE
# What tar is told to pack a file in their place; passed over, a row would lack what they stand for.
_LINKS = {
    tarfile.LNKTYPE: ("hard", "--hard-dereference"),
    tarfile.SYMTYPE: ("symbolic", "--dereference"),
}
_WITH_CONTENT = (*_FILES, _LONG_NAME, _LONG_LINK, _RECORDS, _RECORDS_FOR_ALL)
# Of what a header has no room for, and of the length of each record there: names, dates, owners.
_MOST_HEAD_BYTES, _LENGTH_DIGITS, _SIZE_DIGITS = 2**20, 8, 20


class Member(NamedTuple):
    """A file in a tar file, and where its header begins."""

    name: str
    content: bytes
    place: int


def members(stream: Stream, path: str) -> Iterator[Member]:
    """Yield the files of a tar file in their order; folders are passed over.

    Args:
        stream: of the unpacked file.
        path: of the file, for errors.

    Raises:
        DataError: naming file and place for a header that is none, a member that is cut off, a link
            in the place of a file, and a file without the empty block that ends it.
    """
    place, name, size, is_ended = 0, "", None, False
    while True:
        begin = place
        header = stream.read(_BLOCK)
        if is_ended and not any(header) and len(header) < _BLOCK:
            return
        where = f"{path}: tar from byte {begin}"
        if len(header) < _BLOCK:
            raise _cut_off(where, _BLOCK - len(header))
        place += _BLOCK
        # Another archive may follow the end of one.
        is_ended = not any(header)
        if is_ended:
            continue
        info = _header(header, where)
        where = f"{path}: member {name or info.name} from byte {begin}"
        if info.type not in _WITH_CONTENT:
            if info.type == tarfile.GNUTYPE_SPARSE:
                raise DataError(f"{where}: files with holes are not read")
            if info.type in _LINKS and _is_of_a_file(name or info.name):
                kind, option = _LINKS[info.type]
                raise DataError(
                    f"{where}: a {kind} link to {info.linkname} is not read: tar {option} packs "
                    "files as they are"
                )
            name, size = "", None
            continue
        length = info.size if size is None or info.type not in _FILES else size
        if length < 0 or (info.type not in _FILES and length > _MOST_HEAD_BYTES):
            raise DataError(f"{where}: a header of {length} bytes")
        content = _exactly(stream, length, where)
        padding = -length % _BLOCK
        _exactly(stream, padding, where)
        place += length + padding
        if info.type == _LONG_NAME:
            name = _text(content.partition(b"\0")[0])
        elif info.type == _RECORDS:
            records = _records(content, where)
            name = records.get("path", name)
            size = _number(records["size"], where) if "size" in records else size
        elif info.type in _FILES:
            yield Member(name or info.name, content, begin)
            name, size = "", None


def _header(block: bytes, where: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise DataError(f"{where}: no header of a member: {error}") from error


def _is_of_a_file(link: str) -> bool:
    """Say whether a link stands for a file rather than a folder, as far as its name tells."""
    return "." in link.rpartition("/")[2].lstrip(".")


def _exactly(stream: Stream, size: int, where: str) -> bytes:
    found = read_up_to(stream, size)
    if len(found) < size:
        raise _cut_off(where, size - len(found))
    return found


def _cut_off(where: str, num_bytes: int) -> DataError:
    return DataError(f"{where}: the file ends {num_bytes} bytes early")


def _records(content: bytes, where: str) -> dict[str, str]:
    """Return what stands in lines of `length key=value`, whose length counts all of them."""
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
