"""Mounts that nobody sees but this thread and what it starts."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# As Linux has them in sched.h and mount.h.
_CLONE_FS, _CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x200, 0x20000, 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_mounts() -> Iterator[None]:
    """Have mounts of one's own.

    Raises:
        OSError: where this process may not.
    """
    here = Path.cwd()
    with Path("/proc/thread-self/ns/mnt").open("rb") as before:
        _call(_libc.unshare(_CLONE_NEWNS))
        try:
            _call(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
            yield
        finally:
            # Threads that came since share this one's place, and together they may not go back.
            _call(_libc.unshare(_CLONE_FS))
            _call(_libc.setns(before.fileno(), _CLONE_NEWNS))
            os.chdir(here)  # back among these mounts it is their root


def mount_disk(folder: Path, num_bytes: int) -> None:
    """Mount an empty disk of a size."""
    _call(_libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={num_bytes}".encode()))


def _call(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
