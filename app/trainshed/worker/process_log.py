"""What a worker's process prints, kept with its attempt: by whomever of it, libraries included.

Ray has sent the process's output into files of its node, which go with the node. What is added to
them is copied to the storage, until the worker ends or is ended.
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
    """Keep what this process prints inside the block.

    Where its output is no file, such as in a run without processes of its own, nothing is kept.

    Args:
        attempt: folder of it.
        rank: of this worker.
        seconds: between two looks.
    """
    # By which file it is: both may be one.
    files = {_which(number): number for number in _OUTPUTS if _is_file(number)}
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
    """A file that this process's output goes to, from where it ends now."""

    def __init__(self, number: int) -> None:
        self._path = Path(f"/proc/self/fd/{number}").resolve()
        self._place = os.fstat(number).st_size
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self) -> str:
        """Return what was added since the last look."""
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
        with contextlib.suppress(OSError):  # storage that is full or away ends no training
            while text := text or "".join(output.more() for output in outputs):
                # Not before: a worker that says nothing costs the storage nothing.
                log = log or (attempt / FOLDER).append(name_of(rank))
                log.write(text)
                text = ""
                log.flush()
    if log is not None:
        with contextlib.suppress(OSError):
            log.close()


def _which(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def _is_file(number: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(number).st_mode)
    except OSError:
        return False
