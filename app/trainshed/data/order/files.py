"""What is known of a dataset's files before a row of them is read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api.progress import Record

if TYPE_CHECKING:
    import pyarrow as pa


class File(Record):
    """What tells a file of a dataset from another one; not when it was written: copies differ.

    `path` is below the dataset's, `groups` a CRC-32 of the rows and sizes of its row groups.
    """

    path: str
    bytes: int
    rows: int
    groups: int


@dataclass(frozen=True)
class Fragment:
    """Neighbouring row groups of one file.

    Args:
        path: the file.
        file: its position in the sorted list of files.
        row_groups: which of its row groups.
        rows: how many rows they hold.
        num_bytes: their size when decoded, by the file's footer.
    """

    path: str
    file: int
    row_groups: tuple[int, ...]
    rows: int
    num_bytes: int


@dataclass(frozen=True)
class Source:
    """The files of a dataset, by their footers.

    Args:
        fragments: in the order of the files' names.
        files: in the order of their names.
        schema: of the first file; the others have the same needed columns.
        fingerprint: sha256 over names, sizes and row counts.
    """

    fragments: tuple[Fragment, ...]
    files: tuple[File, ...]
    schema: pa.Schema
    fingerprint: str

    @property
    def rows(self) -> int:
        """Return the rows of all fragments."""
        return sum(fragment.rows for fragment in self.fragments)
