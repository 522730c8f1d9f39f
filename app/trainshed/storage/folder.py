"""The interface to a run's storage: folders of files, on a disk or in a bucket.

Callers do not know which of the two they have, so they do not rely on rename, append, hard links,
locks, or consistent listings. Every failure is an OSError: FileNotFoundError, FileExistsError, and
for failures of storage or network a number that `failures.classify` knows.
"""

from __future__ import annotations

import errno
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


# In a bucket: marks a folder whose objects are being written or deleted.
UNDERWAY = ".writing"


class Stored(NamedTuple):
    """An existing file.

    Args:
        name: relative to the folder of the call.
        bytes: its size.
        modified: seconds since 1970, by the storage's clock.
        tag: of this content, if the storage has tags.
    """

    name: str
    bytes: int
    modified: float
    tag: str = ""

    @property
    def version(self) -> str:
        """Return what distinguishes this content from a later one; empty if nothing does."""
        # Azure's listings have tags without the quotes of its other responses.
        tag = self.tag.removeprefix("W/").strip('"')
        return tag or (repr(self.modified) if self.modified else "")


class Appender(Protocol):
    """A growing text; `Folder.lines` returns the part that has reached the storage."""

    def write(self, text: str, /) -> int:
        """Add to it."""
        ...

    def flush(self) -> None:
        """Send it to the storage: at once on a disk, with the next segment in a bucket."""
        ...

    def close(self) -> None:
        """Send all of it to the storage."""
        ...


class Folder(ABC):
    """A folder, which exists as soon as it has a file."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the last part of its name."""

    @property
    @abstractmethod
    def parent(self) -> Folder:
        """Return the parent folder."""

    @property
    @abstractmethod
    def path(self) -> Path | None:
        """Return its path in a file system; None for a bucket."""

    @abstractmethod
    def __truediv__(self, name: str) -> Folder:
        """Return a folder below it; `name` may have several parts."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the path or the address by which users name it."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of files and folders directly below it; none if it does not exist."""

    @abstractmethod
    def tree(self) -> list[Stored]:
        """Return all files below it, at any depth."""

    @abstractmethod
    def stat(self, name: str) -> Stored | None:
        """Return size, time and tag of a file; None if it does not exist."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: if it does not exist.
        """

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; readers see the old content or the new one."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> None:
        """Create a file that never changes.

        Args:
            name: of the file.
            content: unique to this writer; after a lost response it tells whose file it is.

        Raises:
            FileExistsError: if it exists.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def remove(self, first: str) -> None:
        """Delete the folder with everything in it.

        Args:
            first: the file to delete first: without it the others are invalid.
        """

    @abstractmethod
    def append(self, name: str) -> Appender:
        """Open a text for appending; only one process may do so."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a text, also of a growing one; none if it does not exist."""

    @abstractmethod
    def aside(self, what: str = "a checkpoint") -> AbstractContextManager[Path]:
        """Return a temporary folder on a disk of this machine, for `adopt`.

        The context deletes it with everything that was not adopted.

        Args:
            what: its content, for the message about a full disk.
        """

    @abstractmethod
    def adopt(self, made: Path, name: str, last: str) -> Folder:
        """Move a temporary folder here and return it, numbered if the name is
        taken.

        Args:
            made: a folder of files.
            name: of the folder here.
            last: the file that exists only if all others do.

        Raises:
            OSError: if the storage refuses it; it is then asked to delete what it has.
        """

    @abstractmethod
    def take(self, other: Folder, name: str) -> None:
        """Give another folder of the same storage a second name here; either may be deleted."""

    @abstractmethod
    def is_same(self, other: Folder) -> bool:
        """Return whether two names belong to one folder."""

    @abstractmethod
    def fetch(self, name: str, to: Path) -> None:
        """Copy a file to this machine, with a few parts of it in memory."""

    def now(self) -> float:
        """Return the time by the clock that dates files here, seconds since 1970."""
        # It need not be this machine's clock; a file that was just written tells it.
        name = f".clock-{uuid.uuid4().hex}"
        self.write(name, b"")
        try:
            found = self.stat(name)
        finally:
            self.delete(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "it is being deleted", str(self))
        return found.modified

    def exists(self) -> bool:
        """Return whether it exists; on a disk an empty one does."""
        return bool(self.names())
