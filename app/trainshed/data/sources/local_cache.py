"""Caches files of addresses on the node's disk, for all processes that read there.

A file is written under a temporary name and renamed when it is complete. The writer holds a lock,
which a kill releases; other processes that want the file wait for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import logging
import math
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

_ASIDE, _COUNT = ".aside", "bytes"
# Share to free at once: finding the least recently used files means listing all.
_FREED = 0.1
# Seconds until a full disk is tried again; each try costs a useless download.
_REST_SECONDS = 60.0


class ChangedError(Exception):
    """The content is not the expected one: it was overwritten."""


class _NotFetchedError(Exception):
    """Wraps errors of storage or network, to separate them from errors of the disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


@functools.cache
def kept_here(most_bytes: int) -> LocalFileCache:
    """Return the cache of this node."""
    return LocalFileCache(folder_here(), most_bytes)


def folder_here() -> Path:
    """Return the folder of the cache: in the node's temporary folder."""
    return Path(tempfile.gettempdir()) / f"trainshed-files-{os.getuid()}"


class LocalFileCache:
    """The files of one folder, with least-recently-used eviction.

    Args:
        folder: created if it does not exist.
        most_bytes: of all files together, including files in progress.
        clock: in seconds.
    """

    def __init__(
        self, folder: Path, most_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._clock = clock
        self._full_since = -math.inf

    def open(
        self, key: str, size: int, pieces: Callable[[], Iterator[bytes]]
    ) -> pa.NativeFile | None:
        """Return a cached file, downloading it if necessary; None if it cannot be cached.

        Args:
            key: identifies the content; a valid file name.
            size: of it.
            pieces: downloads it; raises ChangedError if the content is not that of the key.

        Raises:
            OSError: if the download fails.
        """
        name = f"{key}-{size}"
        try:
            self._check_folder()
            if found := self._found(name, size):
                return found
            if size > self._most_bytes or self._clock() < self._full_since + _REST_SECONDS:
                return None
            return self._made(name, size, pieces)
        except _NotFetchedError as failed:
            raise failed.error from None
        except ChangedError:
            return None
        except OSError as error:
            if self._full_since == -math.inf:
                logger.warning("%s: files are read without it: %s", self._folder, error)
            self._full_since = self._clock()
            return None

    def _found(self, name: str, size: int) -> pa.NativeFile | None:
        path = self._folder / name
        try:
            os.utime(path)  # the time of last use
            file = pa.OSFile(str(path))
        except FileNotFoundError:
            return None
        if file.size() == size:
            return file
        # After a power loss the name may exist without all of the content.
        file.close()
        path.unlink(missing_ok=True)
        return None

    def _made(
        self, name: str, size: int, pieces: Callable[[], Iterator[bytes]]
    ) -> pa.NativeFile | None:
        aside = self._folder / f"{name}{_ASIDE}"
        with _held(aside) as file, contextlib.ExitStack() as undo:
            undo.callback(aside.unlink)
            if found := self._found(name, size):  # another process was faster
                return found
            if not self._reserve(size, aside.name):
                return None
            undo.callback(self._reserve, -size, aside.name)
            _write(file, size, pieces)
            aside.rename(self._folder / name)
            undo.pop_all()  # the name may belong to another file now
        return self._found(name, size)

    def _check_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        found = self._folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it is somebody else's", str(self._folder))

    def _reserve(self, size: int, aside: str) -> bool:
        """Reserve bytes, evicting files if necessary; return False if there is no space.

        Args:
            size: number of bytes; negative to release them.
            aside: the file in progress, whose size is not counted again.
        """
        with _held(self._folder / _COUNT) as file:
            text = file.read()
            used = int(text) if text else self._used_after(self._most_bytes, aside)
            if used + size > self._most_bytes:
                wanted = self._most_bytes - max(size, int(self._most_bytes * _FREED))
                used = self._used_after(wanted, aside)
            fits = used + size <= self._most_bytes
            file.seek(0)
            file.truncate()
            file.write(str(max(0, used + size if fits else used)).encode())
            file.flush()
            return fits

    def _used_after(self, most_bytes: int, aside: str) -> int:
        """Delete files until the rest has at most this many bytes; return the size of the rest."""
        used, found = 0, []
        for entry in os.scandir(self._folder):
            is_aside = entry.name.endswith(_ASIDE)
            if entry.name in (_COUNT, aside) or (is_aside and _is_left(entry.path)):
                continue
            text = entry.name.removesuffix(_ASIDE).rpartition("-")[2]
            size = int(text) if text.isdecimal() else entry.stat().st_size
            used += size
            if not is_aside:
                found.append((entry.stat().st_mtime_ns, entry.path, size))
        for _, path, size in sorted(found):
            if used <= most_bytes:
                break
            Path(path).unlink()
            used -= size
        return used


def _write(file: IO[bytes], size: int, pieces: Callable[[], Iterator[bytes]]) -> None:
    file.truncate(0)
    for piece in _fetched(pieces):
        file.write(piece)
    file.flush()
    if file.tell() != size:
        raise ChangedError


def _fetched(pieces: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    try:
        yield from pieces()
    except OSError as error:
        raise _NotFetchedError(error) from error


@contextlib.contextmanager
def _held(path: Path) -> Iterator[IO[bytes]]:
    """Lock and yield a file, creating it if necessary."""
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if _is_at(file, path):  # else the previous holder has renamed or deleted it
                    yield file
                    return
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a forked process may have the file open, too


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _is_left(path: str) -> bool:
    """Delete unfinished files of killed processes, with a log line; not those in progress."""
    with contextlib.suppress(FileNotFoundError), Path(path).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if _is_at(file, Path(path)):
            Path(path).unlink()
    return True
