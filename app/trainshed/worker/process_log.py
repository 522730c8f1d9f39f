"""Saves the output of a worker's process with its attempt, including that of libraries.

Ray redirects the process's output to files of its node, which are lost with the node. New output
is copied to the storage until the worker ends or is killed.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Appender, Folder

FOLDER = "workers"
SECONDS_BETWEEN_LOOKS = 1.0
_MOST_AT_ONCE = 2**20
_OUTPUTS = (1, 2)


def name_of(rank: int) -> str:
    """Return the name of a worker's log."""
    return f"{rank}.log"


@contextlib.contextmanager
def kept(attempt: Folder, rank: int, seconds: float = SECONDS_BETWEEN_LOOKS) -> Iterator[None]:
    """Save what this process prints inside the block.

    Saves nothing if its output is not a file, as in a run inside one process.

    Args:
        attempt: folder of it.
        rank: of this worker.
        seconds: between two copies.
    """
    files: dict[tuple[int, int], int] = {}  # by inode: both streams may be one file
    for number in _OUTPUTS:
        with contextlib.suppress(OSError):  # closed
            found = os.fstat(number)
            if stat.S_ISREG(found.st_mode):
                files[found.st_dev, found.st_ino] = number
    outputs = [_Output(number) for number in files.values()]
    if not outputs:
        yield
        return
    ended = threading.Event()
    copying = threading.Thread(
        target=_copy, args=(attempt, rank, outputs, ended, seconds), name="keep-log", daemon=True
    )
    copying.start()
    try:
        yield
    finally:
        ended.set()
        copying.join()


class _Output:
    """A file with this process's output, read from its current end."""

    def __init__(self, number: int) -> None:
        self._path = Path(f"/proc/self/fd/{number}").resolve()
        self._place = os.fstat(number).st_size
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self) -> str:
        """Return what was added since the previous call."""
        with self._path.open("rb") as file:
            file.seek(self._place)
            found = file.read(_MOST_AT_ONCE)
        self._place += len(found)
        return self._decoder.decode(found)


def _copy(
    attempt: Folder, rank: int, outputs: list[_Output], ended: threading.Event, seconds: float
) -> None:
    log: Appender | None = None
    over, text = False, ""
    while not over:
        over = ended.wait(seconds)
        with contextlib.suppress(OSError):  # full or unavailable storage ends no training
            while text := text or "".join(output.more() for output in outputs):
                # Opened on the first output: a silent worker needs no request.
                log = log or (attempt / FOLDER).append(name_of(rank))
                log.write(text)
                text = ""
                log.flush()
    if log is not None:
        with contextlib.suppress(OSError):
            log.close()
