"""The files and fragments of a dataset in arrays: there may be a million. Pure."""

from __future__ import annotations

import hashlib
import zlib
from abc import abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, repeat
from operator import eq
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np
from typing_extensions import override

from trainshed.data.sampler.fragments import File, FileVersion, Fragment, Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    Ints = NDArray[np.signedinteger]

Item = TypeVar("Item")
# Texts that are compressed together: more take less memory, and one takes longer to read.
PART_TEXTS = 256
UNKNOWN_ROWS = -1
_NO_SPAN = -1
_KINDS = (np.int8, np.int16, np.int32, np.int64)


class Compact(Sequence[Item]):
    """A sequence that makes an item when it is read."""

    @abstractmethod
    def item(self, number: int) -> Item:
        """Return an item by its number, which is not negative."""

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    @override
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        numbers = range(len(self))[at]
        return self.item(numbers) if isinstance(numbers, int) else [*map(self.item, numbers)]

    @override
    def __iter__(self) -> Iterator[Item]:
        return map(self.item, range(len(self)))

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list


class Texts(Compact[str]):
    """Compressed texts: the sorted names of files, which begin alike, take a few bytes each.

    Args:
        texts: without the character 0.
        prefix: of each text that is read.
    """

    def __init__(self, texts: Iterable[str], prefix: str = "") -> None:
        left, self.prefix, self._len = iter(texts), prefix, 0
        parts = []
        while some := list(islice(left, PART_TEXTS)):
            parts.append(zlib.compress("\0".join(some).encode(), level=1))
            self._len += len(some)
        self._parts = tuple(parts)

    def after(self, prefix: str) -> Texts:
        """Return the texts with a prefix, in the same memory."""
        found = Texts((), prefix)
        found._parts, found._len = self._parts, self._len
        return found

    @override
    def __len__(self) -> int:
        return self._len

    @override
    def item(self, number: int) -> str:
        return self.prefix + _texts(self._parts[number // PART_TEXTS])[number % PART_TEXTS]


@lru_cache(maxsize=16)
def _texts(part: bytes) -> list[str]:
    return zlib.decompress(part).decode().split("\0")


def packed(values: ArrayLike) -> Ints:
    """Return integers in the smallest type that holds all of them, shape (values,)."""
    wide = np.asarray(values, dtype=np.int64)
    least, most = (int(wide.min()), int(wide.max())) if wide.size else (0, 0)
    kind = next(k for k in _KINDS if np.iinfo(k).min <= least and most <= np.iinfo(k).max)
    return wide.astype(kind)


class FileTable(Compact[File]):
    """The identities of files.

    Args:
        names: relative to the dataset.
        num_bytes: of each.
        rows: of each; None where only reading tells.
        groups: as in `File`; None if no file has row groups.
    """

    def __init__(
        self, names: Texts, num_bytes: Ints, rows: Ints | None = None, groups: Ints | None = None
    ) -> None:
        self.names, self.num_bytes = names, num_bytes
        self._rows, self._groups = rows, groups

    @classmethod
    def of(cls, files: Sequence[File]) -> FileTable:
        """Return the table of a few files."""
        rows = [UNKNOWN_ROWS if file.rows is None else file.rows for file in files]
        groups, sizes = ([file.groups for file in files], [file.bytes for file in files])
        names = Texts(file.path for file in files)
        return cls(names, packed(sizes), packed(rows), packed(groups))

    @override
    def __len__(self) -> int:
        return len(self.names)

    @override
    def item(self, number: int) -> File:
        rows = UNKNOWN_ROWS if self._rows is None else int(self._rows[number])
        return File(
            self.names.item(number),
            int(self.num_bytes[number]),
            None if rows == UNKNOWN_ROWS else rows,
            0 if self._groups is None else int(self._groups[number]),
        )

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the identity of all files."""
        found = hashlib.sha256()
        rows = repeat(UNKNOWN_ROWS) if self._rows is None else self._rows.tolist()
        groups = repeat(0) if self._groups is None else self._groups.tolist()
        for name, size, count, each in zip(
            self.names, self.num_bytes.tolist(), rows, groups, strict=False
        ):
            known = None if count == UNKNOWN_ROWS else count
            found.update(f"{name} {size} {known} {each}\n".encode())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class FileVersions:
    """The versions of the contents of files.

    Args:
        num_bytes: of each file.
        versions: as in `FileVersion`.
        modified: as in `FileVersion`.
    """

    num_bytes: Ints
    versions: Ints
    modified: Ints

    def some(self, first: int, stop: int) -> tuple[FileVersion, ...]:
        """Return those of some files."""
        all_columns = (self.num_bytes, self.versions, self.modified)
        columns = (column[first:stop].tolist() for column in all_columns)
        return tuple(map(FileVersion, *columns))


class FragmentTable(Compact[Fragment]):
    """The fragments of files.

    Args:
        fragments: in the order of their files.
        paths: of all files, by number.
        versions: of all files, by number; None for tables, whose files never change.
    """

    def __init__(
        self,
        fragments: Iterable[Fragment],
        paths: Sequence[str],
        versions: FileVersions | None = None,
    ) -> None:
        self._paths, self._versions = paths, versions
        self._constants: dict[int, tuple[tuple[str, object], ...]] = {}
        columns, groups = tuple(array("q") for _ in range(8)), array("q")
        for number, each in enumerate(fragments):
            groups.extend(each.row_groups)
            rows = UNKNOWN_ROWS if each.rows is None else each.rows
            span = each.span or (_NO_SPAN, _NO_SPAN)
            values = (each.file, len(each.more), rows, each.num_bytes, *span, each.skip)
            for column, value in zip(columns, (*values, len(groups)), strict=True):
                column.append(value)
            if each.constants:
                self._constants[number] = each.constants
        file, more, rows_of, num_bytes, start, stop, skip, ends = map(packed, columns)
        # File of each fragment, shape (fragments,).
        self.file: Ints = file
        # Rows of each fragment, shape (fragments,); UNKNOWN_ROWS where only reading tells.
        self.rows: Ints = rows_of
        # Bytes of each fragment, shape (fragments,).
        self.num_bytes: Ints = num_bytes
        self._more, self._spans, self._skip = more, (start, stop), skip
        self._ends, self._groups = ends, packed(groups)

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> FragmentTable:
        """Return the table of a few fragments without versions."""
        paths: Mapping[int, str] = {
            each.file + place: path for each in fragments for place, path in enumerate(each.paths)
        }
        files = range(max(paths, default=-1) + 1)
        return cls(fragments, Texts(paths.get(number, "") for number in files))

    @classmethod
    def of_files(
        cls, num_bytes: Ints, paths: Sequence[str], versions: FileVersions
    ) -> FragmentTable:
        """Return the table of whole files, whose rows only reading tells.

        num_bytes: of each file.
        """
        found, number = cls((), paths, versions), len(num_bytes)
        none = np.zeros(number, dtype=np.int8)
        found.file, found.num_bytes = packed(np.arange(number)), num_bytes
        found.rows = np.full(number, UNKNOWN_ROWS, dtype=np.int8)
        found._spans = (np.full(number, _NO_SPAN, dtype=np.int8),) * 2
        found._more = found._skip = found._ends = none
        return found

    @override
    def __len__(self) -> int:
        return len(self.file)

    @override
    def item(self, number: int) -> Fragment:
        file, more, rows = (int(each[number]) for each in (self.file, self._more, self.rows))
        start, stop = (int(each[number]) for each in self._spans)
        begin = int(self._ends[number - 1]) if number else 0
        end, last = int(self._ends[number]), file + 1 + more
        return Fragment(
            self._paths[file],
            file,
            tuple(self._groups[begin:end].tolist()) if end > begin else (),
            None if rows == UNKNOWN_ROWS else rows,
            int(self.num_bytes[number]),
            None if stop == _NO_SPAN else (start, stop),
            tuple(self._paths[file + 1 : last]) if more else (),
            int(self._skip[number]),
            self._constants.get(number, ()),
            self._versions.some(file, last) if self._versions else (),
        )


@dataclass(frozen=True)
class Source:
    """The files of a dataset, from their metadata or their names and sizes.

    Args:
        fragments: in the order of the files' names.
        files: in the order of their names.
        schema: of all files, whose types may be narrower.
        fingerprint: sha256 over names, sizes and row counts.
        scan: how to read them.
        likely_rows: estimated number of rows to read, if it is unknown.
    """

    fragments: FragmentTable
    files: FileTable
    schema: pa.Schema | None
    fingerprint: str
    scan: Scan = field(default_factory=Scan)
    likely_rows: int = 0

    @cached_property
    def num_bytes(self) -> int:
        """Return the size of all fragments, decoded or stored, depending on the format."""
        return int(self.fragments.num_bytes.sum(dtype=np.int64))

    @cached_property
    def rows(self) -> int | None:
        """Return the rows of all fragments; None if only reading tells."""
        counts = self.fragments.rows
        if self.scan.selection or (counts == UNKNOWN_ROWS).any():
            return None
        return int(counts.sum(dtype=np.int64))

    @property
    def about_rows(self) -> int:
        """Return the rows of all fragments, or an estimate if only reading tells."""
        return self.likely_rows if self.rows is None else self.rows

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the identity of all files, for checkpoints."""
        return self.files.digest
