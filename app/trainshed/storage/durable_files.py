"""Files that survive a power loss exactly as they were written.

A file is durable after fsync, and its name after fsync of its folder (fsync(2)).
"""

from __future__ import annotations

import errno
import io
import os
import zlib
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import ReadableBuffer

# Mounted object stores and some network file systems cannot sync folders.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR}


class ChecksumWriter(io.BufferedWriter):
    """Writes a file, and computes size and checksum of what was written.

    Args:
        raw: an empty file, written in order.
    """

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__(raw)
        self.bytes = 0
        self.crc32 = 0

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, and count."""
        self.crc32 = zlib.crc32(data, self.crc32)
        self.bytes += memoryview(data).nbytes
        return super().write(data)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file and sync it to its disk."""
    with path.open("wb") as file:
        file.write(content)
        sync(file)


def sync(file: IO[bytes]) -> None:
    """Sync what was written to an open file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder, if its storage can."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _NO_SYNC:
            return
        raise
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(opened)
