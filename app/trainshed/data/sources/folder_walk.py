"""Lists the files below a dataset's folder on a disk; nothing with rows is skipped silently.

This differs from the `tree` of a run's folder, which ignores linked folders and unreadable
files.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from trainshed.storage.folder import Stored
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Device and inode of a folder.
    Known = tuple[int, int]

# Spark, Hive and Dask use these prefixes for unfinished files and metadata.
HIDDEN = ("_", ".")
# Root's folder at the top of a file system for fsck's finds; not data.
_OF_FSCK = "lost+found"
_LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def names_below(folder: str, field: str) -> list[str]:
    """Return the names of all files below a folder, at any depth, without hidden ones.

    Args:
        folder: its path; it need not exist.
        field: the spec's field to name in errors.

    Raises:
        SpecError: naming a folder without read permission.
        OSError: if the disk does not return it.
    """
    return sorted(name for name, _ in _Walk(field).entries(folder))


def files_below(folder: str, is_wanted: Callable[[str], bool], field: str) -> Iterator[Stored]:
    """Yield the wanted files in any order, without inspecting others.

    Args:
        folder: its path; it need not exist.
        is_wanted: predicate of a name without parent folders.
        field: the spec's field to name in errors.

    Raises:
        SpecError: naming a folder without read permission, or a broken link.
        OSError: if the disk does not return it.
    """
    for name, entry in _Walk(field).entries(folder):
        if is_wanted(entry.name):
            if stored := _stored(name, entry, field):
                yield stored
        elif "." not in entry.name and entry.is_symlink():
            _stored(name, entry, field)  # perhaps a folder on a disk that is not mounted


class _Walk:
    """Walks each folder once, under its real name if that is below the first folder.

    Rows of a folder that links such as `latest` also lead to would otherwise repeat.

    Args:
        field: the spec's field to name in errors.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._seen: set[Known] = set()
        # Links to folders: their paths, and their names with a trailing slash.
        self._links: list[tuple[str, str]] = []

    def entries(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the names of all files, as strings only: there may be millions."""
        yield from self._below(folder, "", is_linked=False)
        while self._links:
            links, self._links = sorted(self._links), []
            for path, name in links:
                yield from self._below(path, name, is_linked=True)

    def _below(
        self, folder: str, name: str, *, is_linked: bool
    ) -> Iterator[tuple[str, os.DirEntry[str]]]:
        for entry in self._listed(folder, is_linked=is_linked):
            if entry.name.startswith(HIDDEN):
                continue
            if not _is_folder(entry, self._field):
                yield f"{name}{entry.name}", entry
            elif entry.is_symlink():
                self._links.append((entry.path, f"{name}{entry.name}/"))
            else:
                yield from self._below(entry.path, f"{name}{entry.name}/", is_linked=is_linked)

    def _listed(self, folder: str, *, is_linked: bool) -> list[os.DirEntry[str]]:
        try:
            found = os.stat(folder)  # noqa: PTH116 - a text, as all here
            known = (found.st_dev, found.st_ino)
            if is_linked and known in self._seen:
                return []
            self._seen.add(known)
            return list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):  # deleted in the meantime
            return []
        except PermissionError as error:
            if folder.endswith(f"/{_OF_FSCK}"):
                return []
            raise _refusal(folder, "a folder that may be listed", error, self._field) from error


def _is_folder(entry: os.DirEntry[str], field: str) -> bool:
    try:
        return entry.is_dir()
    except PermissionError as error:
        raise _refusal(entry.path, "a link that may be followed", error, field) from error
    except OSError as error:
        if error.errno not in _LEADS_NOWHERE:
            raise
        return False


def _stored(name: str, entry: os.DirEntry[str], field: str) -> Stored | None:
    """Return a file; None if it was deleted."""
    try:
        found = entry.stat()
    except OSError as error:
        if error.errno not in _LEADS_NOWHERE:
            raise
        if entry.is_symlink():
            raise _refusal(entry.path, "a link that leads somewhere", error, field) from error
        return None
    return Stored(name, found.st_size, found.st_mtime)


def _refusal(path: str, expected: str, error: OSError, field: str) -> SpecError:
    return SpecError([Problem(field, legible(path), f"{expected} ({error.strerror})")])


def legible(name: str) -> str:
    """Return a printable name or path: bytes that are not UTF-8 as escapes."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
