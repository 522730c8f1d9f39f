"""Temporary files on this machine's disk, on their way to and from buckets.

A Pod has a limit that no system call returns: exceeding it evicts the Pod with all its
processes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed_api.names import ENV_SCRATCH
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_MADE = "trainshed-made-"
_MB = 2**20
_BLOCK_BYTES = 512  # of st_blocks, on every disk


class NoRoomError(OSError):
    """The disk of this machine, or a Pod's share of it, is full."""

    def __init__(self, said: str) -> None:
        super().__init__(errno.ENOSPC, said)

    def __reduce__(self) -> tuple[type[NoRoomError], tuple[str]]:
        """Travel between processes."""
        return type(self), (str(self.strerror),)


@contextlib.contextmanager
def made_aside(what: str) -> Iterator[Path]:
    """Create a temporary folder, deleted with the context, or later if the process is killed.

    what: its content, for error messages.

    Raises:
        NoRoomError: if the disk refuses what is written there.
    """
    _sweep()
    held, made = _make()
    try:
        with space_for(what):
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(held)


@contextlib.contextmanager
def space_for(what: str, num_bytes: int = 0) -> Iterator[None]:
    """Explain a full disk, before or while something is written.

    Args:
        what: its name for the message.
        num_bytes: its size, if known.
    """
    check_room(what, num_bytes)
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or isinstance(error, NoRoomError):
            raise
        raise _no_space(what, 0) from error


def check_room(what: str, num_bytes: int = 0) -> None:
    """Refuse to start if the disk has too little space; raises as `space_for` does."""
    left = _num_left()
    if left < num_bytes:
        raise _no_space(what, left)


def _no_space(what: str, num_left: int) -> NoRoomError:
    folder = tempfile.gettempdir()
    return NoRoomError(
        f"{folder} has too little space for {what} ({max(0, num_left) // _MB} MB are left): "
        "give it more, in a cluster by scratch.tmp of the chart, or write less at once"
    )


def _num_left() -> int:
    """Return how many bytes may still be written; negative beyond a limit."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    limit = os.environ.get(ENV_SCRATCH)
    return min(free, parse_bytes(limit) - _num_used(folder)) if limit else free


def _num_used(folder: str) -> int:
    found: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # deleted in the meantime
                file = Path(parent, name).lstat()
                found[file.st_dev, file.st_ino] = file.st_blocks * _BLOCK_BYTES
    return sum(found.values())


def _make() -> tuple[int, Path]:
    """Return a new locked folder and its lock, which a kill releases."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=_MADE))
        with contextlib.suppress(FileNotFoundError):
            held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(held, fcntl.LOCK_EX)
            if made.exists():
                return held, made
            os.close(held)  # a sweep deleted it before it was locked


def _sweep() -> None:
    """Delete temporary folders of processes that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_MADE}*"):
        with contextlib.suppress(OSError):  # already deleted, or of another user
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if it is in use
                shutil.rmtree(left)
            finally:
                os.close(held)
