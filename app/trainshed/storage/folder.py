"""What a run asks of its storage: folders of names, on a disk or in a bucket.

Nothing above this room knows which of the two it has, so nothing there hangs on rename, append,
hard links, locks, or a listing that is right at once. All that fails is an OSError: what is not
there a FileNotFoundError, what is there already a FileExistsError, and what storage or network did
not give carries a number that `faults.classify` knows.
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


# In a bucket: marks a folder whose objects are being put or deleted.
UNDERWAY = ".writing"


class Stored(NamedTuple):
    """A file that is there.

    Args:
        name: below the folder that was asked.
        bytes: its size.
        modified: seconds since 1970, by the storage's clock.
        tag: of this content, where the storage has such.
    """

    name: str
    bytes: int
    modified: float
    tag: str = ""

    @property
    def version(self) -> str:
        """Return what tells this content from one that is written here later; empty for nothing."""
        # Azure's lists have tags without the quotes that its other answers have.
        tag = self.tag.removeprefix("W/").strip('"')
        return tag or (repr(self.modified) if self.modified else "")


class Appender(Protocol):
    """A text that grows; `Folder.lines` gives what of it has reached the storage."""

    def write(self, text: str, /) -> int:
        """Add to it."""
        ...

    def flush(self) -> None:
        """Let it reach the storage, at once on a disk and with the next piece in a bucket."""
        ...

    def close(self) -> None:
        """Let all of it reach the storage."""
        ...


class Folder(ABC):
    """A folder, which is there as soon as something lies in it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the last part of its name."""

    @property
    @abstractmethod
    def parent(self) -> Folder:
        """Return the folder around it."""

    @property
    @abstractmethod
    def path(self) -> Path | None:
        """Return where it lies in a file system; None for a bucket."""

    @abstractmethod
    def __truediv__(self, name: str) -> Folder:
        """Return a folder below it; `name` may have several parts."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the path or the address by which users name it."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the files and folders right below it; none where it is not there."""

    @abstractmethod
    def tree(self) -> list[Stored]:
        """Return all files below it, at any depth."""

    @abstractmethod
    def stat(self, name: str) -> Stored | None:
        """Return what is known of a file; None where it is not there."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: where it is not there.
        """

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; readers see the old one or the new one."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> None:
        """Write a file that nobody has made, for good.

        Args:
            name: of the file.
            content: like that of no other writer; where an answer was lost it tells whose it is.

        Raises:
            FileExistsError: when somebody has.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    @abstractmethod
    def remove(self, first: str) -> None:
        """Delete the folder with all that is in it.

        Args:
            first: the file that goes first: without it the others mean nothing.
        """

    @abstractmethod
    def append(self, name: str) -> Appender:
        """Open a text to add to; only one process may do so."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a text, also of one that still grows; none where it is not there."""

    @abstractmethod
    def aside(self, what: str = "a checkpoint") -> AbstractContextManager[Path]:
        """Return a folder on a disk of this machine to make something in, for `adopt`.

        It is gone with the context, and so is what was not adopted.

        Args:
            what: is made, for who is told that the disk has no room for it.
        """

    @abstractmethod
    def adopt(self, made: Path, name: str, last: str) -> Folder:
        """Take over what was made aside and return the folder, which has a number where the name
        was taken.

        Args:
            made: a folder of files.
            name: of the folder here.
            last: the file that is there only when all others are.

        Raises:
            OSError: when the storage does not take it; it is asked to keep nothing of it then.
        """

    @abstractmethod
    def take(self, other: Folder, name: str) -> None:
        """Give another folder of the same storage a second name here: either may be deleted."""

    @abstractmethod
    def is_same(self, other: Folder) -> bool:
        """Say whether two names are those of one folder."""

    @abstractmethod
    def fetch(self, name: str, to: Path) -> None:
        """Copy a file to this machine, in no more memory than a few pieces of it."""

    def now(self) -> float:
        """Return the time by the clock that dates files here, seconds since 1970."""
        # It need not be this machine's, and is told by a file that was written just now.
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
        """Say whether it is there: on a disk also an empty one."""
        return bool(self.names())
