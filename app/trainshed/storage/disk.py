"""A folder in a file system that this process sees, possibly a network file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from trainshed.storage import durable_files
from trainshed.storage.folder import Appender, Folder, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

# Unfinished and deleted folders get hidden names.
UNDERWAY, GOING = ".writing-", ".deleting-"


@dataclass(frozen=True)
class Disk(Folder):
    """A folder on a disk.

    Args:
        at: need not exist yet.
    """

    at: Path

    @property
    @override
    def name(self) -> str:
        return self.at.name

    @property
    @override
    def parent(self) -> Disk:
        return Disk(self.at.parent)

    @property
    @override
    def path(self) -> Path:
        return self.at

    @override
    def __truediv__(self, name: str) -> Disk:
        return Disk(self.at / name)

    @override
    def __str__(self) -> str:
        return str(self.at)

    @override
    def names(self) -> list[str]:
        try:
            return sorted(child.name for child in self.at.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    @override
    def exists(self) -> bool:
        return self.at.is_dir()

    @override
    def tree(self) -> list[Stored]:
        return sorted(_files_below(str(self.at), ""))

    @override
    def stat(self, name: str) -> Stored | None:
        file = self.at / name
        try:
            found = None if file.is_dir() else file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stored(name, found.st_size, found.st_mtime) if found else None

    @override
    def read(self, name: str) -> bytes:
        try:
            return (self.at / name).read_bytes()
        except NotADirectoryError as error:
            raise FileNotFoundError(error.errno, "nothing there", str(self.at / name)) from error

    @override
    def write(self, name: str, content: bytes) -> None:
        self.at.mkdir(parents=True, exist_ok=True)
        aside = _beside(self.at / name)
        try:
            aside.write_bytes(content)
            aside.replace(self.at / name)
        finally:
            aside.unlink(missing_ok=True)

    @override
    def create(self, name: str, content: bytes) -> None:
        new = [folder for folder in (self.at, *self.at.parents) if not folder.exists()]
        self.at.mkdir(parents=True, exist_ok=True)
        _make_once(self.at / name, content)
        # The file counts by its name only.
        for folder in (self.at, *(each.parent for each in new)):
            durable_files.sync_folder(folder)

    @override
    def delete(self, name: str) -> None:
        (self.at / name).unlink(missing_ok=True)

    @override
    def remove(self, first: str) -> None:
        going = self.at
        # Another process may delete it, too.
        with contextlib.suppress(FileNotFoundError):
            if not self.name.startswith(GOING):
                # An earlier one of this name may still be deleted.
                name = f"{GOING}{self.name}-{uuid.uuid4().hex[:8]}"
                going = self.at.rename(self.at.with_name(name))
            shutil.rmtree(going)

    @override
    def append(self, name: str) -> Appender:
        self.at.mkdir(parents=True, exist_ok=True)
        return (self.at / name).open("a", encoding="utf-8", errors="replace")

    @override
    def lines(self, name: str) -> Iterator[str]:
        file = self.at / name
        try:
            opened = file.open(encoding="utf-8", errors="replace", newline="\n")
        except (FileNotFoundError, NotADirectoryError):
            return
        with opened as lines:
            yield from lines

    @override
    @contextlib.contextmanager
    def aside(self, what: str = "a checkpoint") -> Iterator[Path]:
        self.at.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=UNDERWAY, dir=self.at))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    @override
    def adopt(self, made: Path, name: str, last: str) -> Disk:
        made.chmod(0o755)  # mkdtemp's 0700 would exclude other users
        durable_files.sync_folder(made)
        number, free = 1, self / name
        while not _is_renamed(made, free.at):
            number += 1
            free = self / f"{name}-{number}"
        with contextlib.ExitStack() as undo:
            undo.callback(free.remove, last)
            durable_files.sync_folder(self.at)
            undo.pop_all()
        return free

    @override
    def take(self, other: Folder, name: str) -> None:
        with self.aside() as made:
            if other.path:
                shutil.copytree(other.path, made, copy_function=_link_or_copy, dirs_exist_ok=True)
            else:
                for each in other.tree():
                    (made / each.name).parent.mkdir(parents=True, exist_ok=True)
                    other.fetch(each.name, made / each.name)
            made.rename(self.at / name)

    def unfinished(self) -> list[Folder]:
        """Return the folders directly below it that `adopt`, `take` or `remove` left
        unfinished."""
        return [self / name for name in self.names() if name.startswith((UNDERWAY, GOING))]

    @override
    def is_same(self, other: Folder) -> bool:
        try:
            return other.path is not None and self.at.samefile(other.path)
        except FileNotFoundError:
            return False

    @override
    def fetch(self, name: str, to: Path) -> None:
        shutil.copyfile(self.at / name, to)


def _make_once(path: Path, content: bytes) -> None:
    """Write a complete file under a new name, and sync it to the disk.

    Raises:
        FileExistsError: if the name exists.
    """
    aside = _beside(path)
    try:
        durable_files.write_bytes(aside, content)
        try:
            os.link(aside, path)
        except FileExistsError:
            # The response of a network disk may be lost, and the retry is then refused.
            if not aside.samefile(path):
                raise
        except OSError:
            _make_without_links(path, content)
    finally:
        aside.unlink(missing_ok=True)


def _make_without_links(path: Path, content: bytes) -> None:
    file = path.open("xb")
    try:
        with file:
            file.write(content)
            durable_files.sync(file)
    except OSError:
        path.unlink()  # a partial file would block others forever
        raise


def _beside(path: Path) -> Path:
    """Return a path for a file to be renamed: no other process or thread uses it."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def _is_renamed(made: Path, free: Path) -> bool:
    """Rename a folder; return False if the name is taken."""
    if free.exists():
        return False
    try:
        made.rename(free)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _files_below(folder: str, name: str) -> Iterator[Stored]:
    """Yield the files of a folder, without Path objects: there may be millions.

    A folder that was deleted, or is not readable for this user, is empty.

    Args:
        folder: its path.
        name: of it, with a trailing slash, relative to the folder of the call.
    """
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
            if not entry.is_dir():
                found = entry.stat()
                yield Stored(f"{name}{entry.name}", found.st_size, found.st_mtime)
            elif not entry.is_symlink():
                yield from _files_below(entry.path, f"{name}{entry.name}/")


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
    return target
