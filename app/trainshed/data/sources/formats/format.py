"""What every format can do: to read what tasks read, and before that to say what these are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sampler.bad_records import BadRecord
    from trainshed.data.sampler.fragments import File, Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import FileAccess, Opener
    from trainshed.storage.folder import Folder
    from trainshed_api.rows import ReadSpec


class Reader(ABC):
    """How what tasks read is read."""

    # Options, by their fields, that leave each row at its place in its file, by which it is held
    # out. Any other may move it.
    unmoving: tuple[str, ...] = ()

    @abstractmethod
    def tables(
        self,
        fragment: Fragment,
        scan: Scan,
        columns: Sequence[str],
        chunk_rows: int,
        opened: Opener,
    ) -> Iterator[Columns | BadRecord]:
        """Yield the rows of a fragment in their order, in tables of at most `chunk_rows` rows.

        A record that cannot be decoded is yielded as a BadRecord between the rows before and after
        it: whether it is left out or ends the run is not the format's to say. All are the same
        every time, for any `chunk_rows`: where a read fails it is made again, and what was yielded
        before is passed over.

        Args:
            fragment: to read.
            scan: how.
            columns: to read; empty for all.
            chunk_rows: most rows of a table.
            opened: opens a file.

        Raises:
            DataError: naming the file, and where in it, when nothing after that can be read either.
            OSError: when the storage does not give it.
        """

    def place(self, fragment: Fragment, row: int) -> tuple[str, str]:
        """Return the file of a row, and where in it.

        Args:
            fragment: that holds it.
            row: counted from 0 at the fragment's beginning, with the bad records before it.
        """
        if fragment.row_groups:
            return fragment.path, f"row {row} of {fragment.say_row_groups()}"
        begin = f" from byte {fragment.span[0]} on" if fragment.span else ""
        return fragment.path, f"row {row}{begin}"

    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        """Return about how many rows a stored byte has, by the beginning of a fragment.

        It is asked only where a fragment does not know its rows: of a format whose fragments all
        do, nobody asks.
        """
        raise NotImplementedError(f"{fragment.path}: format {scan.format} tells its rows")


class Format(Reader):
    """Files that are found by their names, and how they are cut into what tasks read."""

    # How its files end, in small letters; none for any file.
    suffixes: tuple[str, ...] = ()

    @abstractmethod
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, list[Fragment]]:
        """Return how the files are read and what each task reads of them, before a row is read.

        Args:
            files: at least one, in the order of their names.
            scan: with the options and where the files lie.
            field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
            opened: opens a file.

        Raises:
            SpecError: for files that do not fit the options, or each other.
            OSError: when the storage does not give what has to be looked at.
        """


class Contents(NamedTuple):
    """What a dataset has: how it is read, its files, and what each task reads of them."""

    scan: Scan
    files: list[File]
    fragments: list[Fragment]


class Table(Reader):
    """Files of which a table's own log tells which belong to a version of it."""

    @abstractmethod
    def open(
        self, at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess
    ) -> Contents:
        """Return what is read of the table, in its newest version or the one that is asked for.

        Args:
            at: where it lies.
            read: the spec's `read`.
            scan: with the options and where the table lies.
            field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
            access: to the storage.

        Raises:
            SpecError: when there is no such table or version, or one that is not read.
            OSError: when the storage does not give what has to be looked at.
        """
