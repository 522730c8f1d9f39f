"""A folder that is filled file by file and appears only when it is complete."""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.storage import durable_files
from trainshed.storage.folder import UNDERWAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trainshed.storage.folder import Folder


@dataclass(frozen=True)
class StagedFolder:
    """The interface for filling a folder.

    Args:
        aside: a temporary folder of this context for files in progress.
        add: moves a file from there into the folder, under the same name.
    """

    aside: Path
    add: Callable[[Path], None]


def is_free(target: Folder) -> bool:
    """Return whether a folder can be filled: it does not exist, or is empty."""
    return target.parent.stat(target.name) is None and not target.names()


@contextlib.contextmanager
def fill(target: Folder) -> Iterator[StagedFolder]:
    """Fill a folder; an error in the context deletes everything.

    On a disk it gets its name when it is complete. In a bucket an object marks it as incomplete
    until then, also after a kill.

    Raises:
        FileExistsError: if it exists and is not empty.
    """
    if not is_free(target):
        raise _taken(target)
    with _on_disk(target, target.path) if target.path else _in_bucket(target) as filling:
        yield filling


@contextlib.contextmanager
def _on_disk(target: Folder, path: Path) -> Iterator[StagedFolder]:
    with target.parent.aside("a part of the rows") as made:
        files, aside = made / "files", made / "aside"
        files.mkdir()
        aside.mkdir()

        def add(file: Path) -> None:
            with file.open("rb+") as written:
                durable_files.sync(written)
            file.rename(files / file.name)

        yield StagedFolder(aside, add)
        last = max((file.name for file in files.iterdir()), default="")
        _make_room(path, target)
        adopted = target.parent.adopt(files, target.name, last)
        if not adopted.is_same(target):
            adopted.remove(last)
            raise _taken(target)


def _make_room(path: Path, target: Folder) -> None:
    """Move an empty folder away: another one needs its name."""
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        raise _taken(target) from error


@contextlib.contextmanager
def _in_bucket(target: Folder) -> Iterator[StagedFolder]:
    target.create(UNDERWAY, uuid.uuid4().bytes)
    with contextlib.ExitStack() as undo, target.aside("a part of the rows") as aside:
        undo.callback(_forget, target)
        if target.names() != [UNDERWAY]:  # another writer finished it since it was checked
            undo.pop_all()
            target.delete(UNDERWAY)
            raise _taken(target)

        def add(file: Path) -> None:
            target.write(file.name, file.read_bytes())
            file.unlink()

        yield StagedFolder(aside, add)
        target.delete(UNDERWAY)
        undo.pop_all()


def _forget(target: Folder) -> None:
    with contextlib.suppress(OSError):  # then it stays marked
        target.remove(first=UNDERWAY)


def _taken(target: Folder) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "it exists and is not empty", str(target))
