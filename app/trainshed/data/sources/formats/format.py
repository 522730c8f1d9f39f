"""The interface of every format: split files into fragments, and read fragments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.bad_records import BadRecord
    from trainshed.data.sampler.file_tables import FileTable, FragmentTable
    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import FileAccess, Opener
    from trainshed.storage.folder import Folder
    from trainshed_api.rows import ReadSpec


class FragmentRead(NamedTuple):
    """What to read of a fragment, and how.

    Args:
        fragment: to read.
        scan: how to read its files.
        columns: to read; empty for all.
        chunk_rows: maximum rows of a table.
        opened: opens a file.
    """

    fragment: Fragment
    scan: Scan
    columns: Sequence[str]
    chunk_rows: int
    opened: Opener


class Reader(ABC):
    """Reads fragments."""

    # Options, by their fields, that do not affect the position of a row in its file, which decides
    # its
    # side of a split. All others may.
    unmoving: tuple[str, ...] = ()

    @abstractmethod
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        """Yield the rows of a fragment in order, in tables of at most `chunk_rows` rows.

        A record that cannot be decoded is yielded as a BadRecord between the rows around it; the
        caller skips it or ends the run. The result is the same every time, for any `chunk_rows`:
        after a failed read it is repeated, and the caller skips what it already has.

        Raises:
            DataError: with file and position, if nothing after it can be read either.
            OSError: if the storage does not return it.
        """

    def place(self, fragment: Fragment, row: int) -> tuple[str, str]:
        """Return the file of a row, and its position there.

        Args:
            fragment: that has it.
            row: index from the fragment's beginning, including bad records before it.
        """
        if fragment.row_groups:
            return fragment.path, f"row {row} of {fragment.say_row_groups()}"
        begin = f" from byte {fragment.span[0]} on" if fragment.span else ""
        return fragment.path, f"row {row}{begin}"

    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        """Return the estimated rows per stored byte, from the beginning of a fragment.

        Called only if a fragment has no row count: not for formats that always have
        one.
        """
        raise NotImplementedError(f"{fragment.path}: format {scan.format} tells its rows")


class Format(Reader):
    """Files that are found by name, and split into fragments."""

    # File endings in lower case; empty for any file.
    suffixes: tuple[str, ...] = ()

    @abstractmethod
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment] | None]:
        """Return how to read the files, and their fragments, before any row is read.

        None if each file is a fragment, whose rows only reading tells.

        Args:
            files: at least one, sorted by name.
            scan: with the options and the location of the files.
            field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
            opened: opens a file.

        Raises:
            SpecError: for files that do not match the options, or each other.
            OSError: if the storage does not return what is needed.
        """


class Contents(NamedTuple):
    """The content of a dataset: how to read it, its files, and their fragments."""

    scan: Scan
    files: FileTable
    fragments: FragmentTable


class Table(Reader):
    """Tables whose log names the files of each version."""

    @abstractmethod
    def open(
        self, at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess
    ) -> Contents:
        """Return the content of the table, in its newest version or the requested one.

        Args:
            at: location of the table.
            read: the spec's `read`.
            scan: with the options and the location of the table.
            field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
            access: to the storage.

        Raises:
            SpecError: if there is no such table or version, or it has unsupported features.
            OSError: if the storage does not return what is needed.
        """
