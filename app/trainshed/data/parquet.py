"""Parquet files as fragments: what can be read on its own, with its row count known before reading."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.columns import Columns, from_arrow
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Neighbouring row groups of a file are read together up to this size: enough work to pay for a
# Ray task (a few ms), small enough that a worker holds several.
FRAGMENT_BYTES = 16 * 2**20


class DataError(Exception):
    """Data that cannot be read or used; the message names the file or column."""


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
        num_files: number of files.
        schema: of the first file; the others have the needed columns too.
        fingerprint: sha256 over names, sizes and row counts.
    """

    fragments: tuple[Fragment, ...]
    num_files: int
    schema: pa.Schema
    fingerprint: str

    @property
    def rows(self) -> int:
        """Return the rows of all fragments."""
        return sum(fragment.rows for fragment in self.fragments)


def open_source(path: Path, columns: Sequence[str], field: str) -> Source:
    """Read the footers of a file or of all `*.parquet` files of a folder.

    Args:
        path: a file or a folder.
        columns: the columns that must be there; empty for all.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.

    Raises:
        SpecError: when the path, a file or a column is missing, or a file is no parquet.
    """
    files = _files(path, field)
    footers = [(file, _footer(file, field)) for file in files]
    for file, footer in footers:
        have = footer.schema.to_arrow_schema().names
        for column in columns:
            if column not in have:
                raise SpecError(
                    [Problem(f"{field}.columns", column, f"one of {', '.join(have)} ({file})")]
                )
    digest = hashlib.sha256()
    fragments: list[Fragment] = []
    for number, (file, footer) in enumerate(footers):
        digest.update(f"{file.name} {file.stat().st_size} {footer.num_rows}\n".encode())
        fragments.extend(_fragments(str(file), number, footer))
    if not fragments:
        raise SpecError([Problem(f"{field}.path", str(path), "files with at least one row")])
    schema = footers[0][1].schema.to_arrow_schema()
    return Source(tuple(fragments), len(files), schema, digest.hexdigest())


def read_fragment(fragment: Fragment, columns: Sequence[str]) -> Columns:
    """Return the rows of a fragment.

    Raises:
        DataError: naming the file and row groups when they cannot be decoded.
    """
    try:
        with pq.ParquetFile(fragment.path) as file:
            table = file.read_row_groups(
                list(fragment.row_groups), columns=list(columns) or None, use_threads=False
            )
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{fragment.path}: row groups {list(fragment.row_groups)} cannot be read: {error}"
        ) from error
    return from_arrow(table)


def read_sample(source: Source, columns: Sequence[str], rows: int) -> Columns:
    """Return the first rows of the dataset without reading a whole row group where it is large.

    Raises:
        DataError: naming the file when its first rows cannot be decoded.
    """
    first = source.fragments[0]
    try:
        with pq.ParquetFile(first.path) as file:
            batches = file.iter_batches(
                rows, row_groups=list(first.row_groups), columns=list(columns) or None
            )
            return from_arrow(pa.Table.from_batches([next(batches)]))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{first.path}: its first rows cannot be read: {error}") from error


def _files(path: Path, field: str) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
        if not files:
            raise SpecError([Problem(f"{field}.path", str(path), "a folder with *.parquet files")])
        return files
    if not path.exists():
        raise SpecError(
            [Problem(f"{field}.path", str(path), "a parquet file or folder that exists")]
        )
    return [path]


def _footer(file: Path, field: str) -> pq.FileMetaData:
    try:
        return pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise SpecError(
            [Problem(f"{field}.path", str(file), f"a parquet file ({error})")]
        ) from error


def _fragments(path: str, number: int, footer: pq.FileMetaData) -> list[Fragment]:
    fragments: list[Fragment] = []
    for group in range(footer.num_row_groups):
        info = footer.row_group(group)
        if not info.num_rows:
            continue
        last = fragments[-1] if fragments else None
        if last and last.num_bytes + info.total_byte_size <= FRAGMENT_BYTES:
            fragments[-1] = Fragment(
                path,
                number,
                (*last.row_groups, group),
                last.rows + info.num_rows,
                last.num_bytes + info.total_byte_size,
            )
        else:
            fragments.append(Fragment(path, number, (group,), info.num_rows, info.total_byte_size))
    return fragments
