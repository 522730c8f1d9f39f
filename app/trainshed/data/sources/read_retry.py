"""Handles a failed read of a fragment: retries, or classifies the error."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.failures import InfrastructureError, is_passing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.opener import FileAccess


class ReadRetrier:
    """The failures of one reading of a fragment.

    Args:
        fragment: that is read.
        access: to the storage.
    """

    def __init__(self, fragment: Fragment, access: FileAccess) -> None:
        self._fragment = fragment
        self._pauses = iter(access.retry_policy.pauses)
        self._rest = access.retry_policy.rest
        self._opened = access.opened
        self._seen: set[bytes] = set()

    def take(self, error: OSError | pa.ArrowException) -> None:
        """Handle a failure, and wait before the next try.

        Raises:
            DataError: with file and row groups, if the bytes cannot be decoded and are the same
                when read again.
            InfrastructureError: if the storage does not return them.
            OSError: for anything else, unchanged.
        """
        # The file existed when the run was planned: if it is missing, the storage or its mount
        # failed, or another process deletes files during the run.
        if is_passing(error) or isinstance(error, (FileNotFoundError, PermissionError)):
            self._wait(error)
        elif isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise error
        else:
            self._judge(error)

    def _wait(self, error: Exception) -> None:
        pause = next(self._pauses, None)
        if pause is None:
            raise InfrastructureError(
                self._named(self._fragment.row_groups, error), "storage"
            ) from error
        self._rest(pause)

    def _judge(self, error: Exception) -> None:
        """Compare the bytes of two reads: equal bytes are the file's, others a bad read."""
        try:
            seen = self._digest()
            if seen in self._seen:
                damaged = tuple(self._undecodable()) or self._fragment.row_groups
                raise DataError(self._named(damaged, error)) from error
        except OSError as failed:
            self._wait(failed)
            return
        if self._seen:
            self._wait(error)
        self._seen.add(seen)

    def _digest(self) -> bytes:
        """Return a hash of all bytes that the fragment reads from the file."""
        with self._opened(self._fragment.path) as raw:
            digest = hashlib.sha256()
            for start, size in _spans(raw, self._fragment):
                raw.seek(start)
                digest.update(raw.read(size))
            return digest.digest()

    def _undecodable(self) -> Iterator[int]:
        for group in self._fragment.row_groups:
            with self._opened(self._fragment.path) as raw:
                try:
                    pq.ParquetFile(raw).read_row_group(group, use_threads=False)
                except (OSError, pa.ArrowException):
                    yield group

    def _named(self, groups: tuple[int, ...], error: Exception) -> str:
        said = on_one_line(error)
        which = f"row groups {list(groups)} " if groups else ""
        return f"{self._fragment.path}: {which}cannot be read: {said}"


def _spans(raw: pa.NativeFile, fragment: Fragment) -> Iterator[tuple[int, int]]:
    """Yield (start, bytes) of the fragment's columns; of the whole file if its footer is bad."""
    try:
        footer = pq.read_metadata(raw)
        found = list(spans_of(footer, fragment.row_groups))
    except pa.ArrowException:
        yield 0, raw.size()
        return
    for start, stop in found:
        yield start, stop - start


def spans_of(
    footer: pq.FileMetaData, row_groups: Sequence[int], columns: Sequence[str] = ()
) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges [start, stop) of columns of row groups in a file.

    Args:
        footer: of the file.
        row_groups: which; empty for all.
        columns: which; empty for all.
    """
    numbers = row_groups or range(footer.num_row_groups)
    for group in (footer.row_group(number) for number in numbers):
        for column in (group.column(number) for number in range(group.num_columns)):
            path = column.path_in_schema  # nested columns have longer paths
            if columns and not any(path == name or path.startswith(f"{name}.") for name in columns):
                continue
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            yield start, start + column.total_compressed_size
