"""A checkpoint's files on this machine's disk, fetched once for all ranks of a node."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.checkpoint.store import (
    MANIFEST,
    BadCheckpointError,
    DamagedError,
    check_content,
    check_not_passed_over,
)
from trainshed.retry import READS
from trainshed.storage.scratch import space_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.checkpoint.manifest import Manifest
    from trainshed.storage.folder import Folder

# A file of this name marks all other files of the folder as complete.
_WHOLE = ".whole"


@contextlib.contextmanager
def local_checkpoint(folder: Folder, manifest: Manifest) -> Iterator[Path]:
    """Yield a folder with the files of a checkpoint: the checkpoint itself if it is on a disk.

    The first rank fetches it from a bucket. It stays for the other ranks and for restarted
    workers, until another checkpoint of the run is requested.

    Raises:
        DamagedError: if a file is not what was written, twice in a row or for another rank.
        BadCheckpointError: if a name in the manifest leads elsewhere.
        OSError: if storage or disk fails; NoRoomError if the disk has too little space.
    """
    if folder.path:
        yield folder.path
        return
    run = _of_user() / _digest(str(folder.parent.parent.parent))
    run.mkdir(mode=0o700, exist_ok=True)
    here = run / _digest(f"{folder} {manifest.model_dump_json()}")
    with (run / ".turn").open("w") as turn, (run / ".lock").open("w") as lock:
        # One at a time checks and fetches. Readers hold a shared lock, so only a request for
        # another
        # checkpoint, which would delete theirs, waits for them.
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not _is_whole(here, manifest):
            fcntl.flock(lock, fcntl.LOCK_EX)
            _clear(run)
            _clear_others(run)
            num_bytes = sum(expected.bytes for expected in manifest.files.values())
            with space_for(f"{folder} of {num_bytes // 2**20} MB", num_bytes):
                _fetch(folder, manifest, here)
            # Changing the lock takes two steps (flock(2)). Another run may clear in between: check
            # again.
            fcntl.flock(lock, fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield here


def _is_whole(here: Path, manifest: Manifest) -> bool:
    """Return whether all files were fetched, and no cleaner deleted some since."""
    if not (here / _WHOLE).exists():
        return False
    sizes = {file.name: file.stat().st_size for file in here.iterdir()}
    return all(sizes.get(name) == expected.bytes for name, expected in manifest.files.items())


def _clear(run: Path) -> None:
    for other in run.iterdir():
        if other.is_dir():
            shutil.rmtree(other)


def _clear_others(run: Path) -> None:
    """Delete what other runs fetched here and no longer read: nobody else would."""
    for other in run.parent.iterdir():
        with contextlib.suppress(OSError), (other / ".lock").open("w") as lock:
            if other != run:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(other)


def _fetch(folder: Folder, manifest: Manifest, to: Path) -> None:
    to.mkdir(mode=0o700)
    try:
        READS.read(partial(folder.fetch, MANIFEST, to / MANIFEST))
    except FileNotFoundError:
        check_not_passed_over(folder)  # by the first rank
        raise
    for name, expected in manifest.files.items():
        if Path(name).name != name:
            raise BadCheckpointError(f"{folder}: {name} is not a file name")
        READS.read(partial(folder.fetch, name, to / name))
        try:
            check_content(to / name, expected, str(folder))
        except DamagedError:  # in transit or in storage: the second attempt tells
            READS.read(partial(folder.fetch, name, to / name))
            check_content(to / name, expected, str(folder))
    (to / _WHOLE).touch()


def _of_user() -> Path:
    """Return a folder that only this user can write to.

    Raises:
        PermissionError: if another user created it first.
    """
    folder = Path(tempfile.gettempdir(), f"trainshed-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or folder.is_symlink():
        raise PermissionError(f"{folder} is not this user's alone: checkpoints are fetched to it")
    return folder


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
