"""The disk of this machine, where what goes to a bucket is made and what comes from one lies.

A Pod's has a limit that no call to the system tells: whoever is beyond it is evicted, with all that
runs there.
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
_BLOCK_BYTES = 512  # of st_blocks, whatever the disk's are


class NoRoomError(OSError):
    """The disk of this machine, or what a Pod may have of it, is full."""

    def __init__(self, said: str) -> None:
        super().__init__(errno.ENOSPC, said)

    def __reduce__(self) -> tuple[type[NoRoomError], tuple[str]]:
        """Travel between processes."""
        return type(self), (str(self.strerror),)


@contextlib.contextmanager
def made_aside(what: str) -> Iterator[Path]:
    """Give a new folder, which goes with the context, or when its process was killed.

    what: is made there.

    Raises:
        NoRoomError: where the disk refuses what is written there.
    """
    _sweep()
    held, made = _make()
    try:
        with room_for(what):
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(held)


@contextlib.contextmanager
def room_for(what: str, num_bytes: int = 0) -> Iterator[None]:
    """Say what to do where the disk has no room for something, before or while it is written.

    Args:
        what: that it is.
        num_bytes: as far as it is known.
    """
    check_room(what, num_bytes)
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or isinstance(error, NoRoomError):
            raise
        raise _no_room(what, 0) from error


def check_room(what: str, num_bytes: int = 0) -> None:
    """Refuse to begin what the disk has no room for; raises as `room_for` does."""
    left = _num_left()
    if left < num_bytes:
        raise _no_room(what, left)


def _no_room(what: str, num_left: int) -> NoRoomError:
    folder = tempfile.gettempdir()
    return NoRoomError(
        f"{folder} of this machine has no room for {what} ({max(0, num_left) // _MB} MB are left): "
        "give it more, in a cluster by scratch.tmp of the chart, or write less at once"
    )


def _num_left() -> int:
    """Return how many bytes may still be written; less than none where a limit is passed."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    limit = os.environ.get(ENV_SCRATCH)
    return min(free, parse_bytes(limit) - _num_used(folder)) if limit else free


def _num_used(folder: str) -> int:
    found: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it went meanwhile
                file = Path(parent, name).lstat()
                found[file.st_dev, file.st_ino] = file.st_blocks * _BLOCK_BYTES
    return sum(found.values())


def _make() -> tuple[int, Path]:
    """Return a new folder that is held, with what it is held by: a kill lets go of it."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=_MADE))
        with contextlib.suppress(FileNotFoundError):
            held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(held, fcntl.LOCK_EX)
            if made.exists():
                return held, made
            os.close(held)  # who sweeps was there first


def _sweep() -> None:
    """Delete what processes that were killed had made here."""
    for left in Path(tempfile.gettempdir()).glob(f"{_MADE}*"):
        with contextlib.suppress(OSError):  # gone by now, or somebody else's
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or refused: it is at work
                shutil.rmtree(left)
            finally:
                os.close(held)
