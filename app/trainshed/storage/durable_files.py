"""Files that are still there, and as they were written, after the power was lost.

A file is on its disk once it was synced, and its name once its folder was (fsync(2)).
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

# Object stores that are mounted, and some network file systems, know no folders to sync.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR}


class ChecksumWriter(io.BufferedWriter):
    """Writes a file, and knows what was written came to.

    Args:
        raw: written from its beginning on, in order.
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
    """Write a file and have it on its disk."""
    with path.open("wb") as file:
        file.write(content)
        sync(file)


def sync(file: IO[bytes]) -> None:
    """Have on its disk what was written to an open file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on its disk, where its storage can."""
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
