"""Files that are one row each: images, and bytes of any kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.column_arrays import as_objects
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.storage.addresses import is_remote
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import ImagesOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.sampler.fragments import Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# Bytes per task: a task costs some 10 ms, and each file of a bucket a request.
TASK_BYTES = 16 * 2**20
TASK_FILES = 1024
# Requests to a bucket in flight at once.
FILES_AT_ONCE = 16
# Columns that are read only on request.
UNASKED = frozenset({"path"})


class Binary(Format):
    """Files unchanged, in the columns `bytes` and `path`."""

    content = "bytes"
    beside: tuple[str, ...] = ("path",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment]]:
        schema = pa.schema([(self.content, pa.binary()), ("path", pa.string())])
        return replace(scan, schema=schema), group_files(files)

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        fragment, scan, columns, chunk_rows, opened = read
        names = columns or (self.content, *(["label"] if scan.classes else self.beside))
        reads = self.content in names
        files = read_files(fragment, chunk_rows, opened) if reads else unread(fragment, chunk_rows)
        for paths, contents in files:
            found: Columns = {}
            for name in names:
                if name == self.content:
                    found[name] = as_objects(contents)
                elif name == "path":
                    found[name] = as_objects([scan.name_of(path) for path in paths])
                elif name == "label" and scan.classes:
                    found[name] = labels_of(paths, scan)
            yield found

    @override
    def place(self, fragment: Fragment, row: int) -> tuple[str, str]:
        return fragment.paths[row], "the file"


class Images(Binary):
    """Encoded images, in the columns `image`, `label` and, on request, `path`."""

    suffixes = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
    content = "image"
    beside = ()

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment]]:
        found, fragments = super().open(files, scan, field, opened)
        scan = replace(found, unasked=UNASKED)
        assert scan.schema
        if scan.options_as(ImagesOptions).labels == "none":
            return scan, fragments
        schema = scan.schema.append(pa.field("label", pa.int64()))
        return replace(scan, schema=schema, classes=folders_of(files, field)), fragments


def group_files(files: Sequence[Found], most: int = TASK_BYTES) -> Iterator[Fragment]:
    """Yield groups of neighbouring files, one per task, by their sizes.

    most: maximum bytes of a group with more than one file.
    """
    group: list[Found] = []
    first, size = 0, 0
    for number, file in enumerate(files):
        if group and (size + file.bytes > most or len(group) >= TASK_FILES):
            yield _group(group, first, size)
            group, first, size = [], number, 0
        group.append(file)
        size += file.bytes
    yield _group(group, first, size)


def _group(files: Sequence[Found], first: int, size: int) -> Fragment:
    more = tuple(file.where for file in files[1:])
    return Fragment(files[0].where, first, (), len(files), size, more=more)


def folders_of(files: Sequence[Found], field: str) -> tuple[str, ...]:
    """Return the folders directly below the dataset's, by name: a file's folder is its label.

    Raises:
        SpecError: naming a file outside of such a folder.
    """
    for file in files:
        if "/" not in file.name:
            expected = "files in folders named as their labels are, or options: {labels: none}"
            raise SpecError([Problem(f"{field}.path", file.where, expected)])
    return tuple(sorted({file.name.partition("/")[0] for file in files}))


def labels_of(paths: Sequence[str], scan: Scan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the index of each file's folder, shape (files,)."""
    numbers = {name: number for number, name in enumerate(scan.classes)}
    found = [numbers[scan.name_of(path).partition("/")[0]] for path in paths]
    return np.asarray(found, dtype=np.int64)


def read_files(
    fragment: Fragment, chunk_rows: int, opened: Opener
) -> Iterator[tuple[Sequence[str], list[bytes]]]:
    """Yield (paths, contents) of at most this many files at a time, in order.

    From an address all files are fetched ahead: a fragment is small enough.
    """
    paths = fragment.paths

    def read(path: str) -> bytes:
        with opened(path, WHOLE) as raw:
            return bytes(raw.read())

    if not is_remote(fragment.path):
        for first in range(0, len(paths), chunk_rows):
            part = paths[first : first + chunk_rows]
            yield part, [read(path) for path in part]
        return
    pool = ThreadPoolExecutor(FILES_AT_ONCE)
    try:
        coming = pool.map(read, paths)
        for first in range(0, len(paths), chunk_rows):
            part = paths[first : first + chunk_rows]
            yield part, list(islice(coming, len(part)))
    finally:
        pool.shutdown(cancel_futures=True)


def unread(fragment: Fragment, chunk_rows: int) -> Iterator[tuple[Sequence[str], list[bytes]]]:
    """Yield the same for files whose names suffice, without reading them."""
    for first in range(0, len(fragment.paths), chunk_rows):
        part = fragment.paths[first : first + chunk_rows]
        yield part, [b""] * len(part)
