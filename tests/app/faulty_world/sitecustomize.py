"""What the operating system refuses: each Python of a run loads this where it is on its path.

A refusal is a file in the folder that WORLD names: CALL-ERROR-NUMBER is given once, and
CALL-ERROR-always as long as it is there. Calls are those that our own code makes: `open` and `read`
of data, `mkdir` and `fsync` of a checkpoint. Where there is a file `late`, clocks are set back.
"""

import errno
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike, StrOrBytesPath

WORLD = Path(os.environ["TRAINSHED_TEST_WORLD"])
DATA, CHECKPOINT = "/rows/", "/.writing-"
SECONDS_LATE = 3600.0

_open_file, _fsync, _mkdir, _time = pa.OSFile, os.fsync, os.mkdir, time.time


def refuse(call: str, place: str) -> None:
    """Fail as the operating system does, if it is to refuse the call."""
    for refusal in WORLD.glob(f"{call}-*"):
        _, error, how_often = refusal.name.split("-")
        if how_often != "always":
            try:
                refusal.unlink()
            except FileNotFoundError:
                continue  # somebody else was refused
        number = getattr(errno, error)
        raise OSError(number, os.strerror(number), place)


class Reads(io.FileIO):
    """A file whose reads may be refused."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes."""
        refuse("read", str(self.name))
        return super().read(size)


def open_file(path: str) -> pa.NativeFile:
    """Open a file as pyarrow does, and note which."""
    if DATA not in path:
        return _open_file(path)
    with (WORLD / "opened").open("a", encoding="utf-8") as opened:
        opened.write(f"{path}\n")
    refuse("open", path)
    return pa.PythonFile(Reads(path), mode="r") if any(WORLD.glob("read-*")) else _open_file(path)


def fsync(fd: "FileDescriptorLike") -> None:
    """Force a file to storage."""
    number = fd if isinstance(fd, int) else fd.fileno()
    place = str(Path(f"/proc/self/fd/{number}").readlink())
    if CHECKPOINT in place:
        refuse("fsync", place)
    _fsync(number)


def mkdir(path: "StrOrBytesPath", mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    """Make a folder."""
    place = os.fsdecode(path)
    if CHECKPOINT in place:
        refuse("mkdir", place)
    _mkdir(path, mode, dir_fd=dir_fd)


def now() -> float:
    """Return the time, or what a clock says that was set back."""
    return _time() - (SECONDS_LATE if (WORLD / "late").exists() else 0.0)


pa.OSFile, os.fsync, os.mkdir, time.time = open_file, fsync, mkdir, now
