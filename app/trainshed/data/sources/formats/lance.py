"""Lance tables: the fragments of a version, split by rows, whose counts are in its manifest."""

from __future__ import annotations

import errno
import functools
import re
import warnings
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.file_tables import FileTable, FragmentTable
from trainshed.data.sampler.fragments import File, Fragment
from trainshed.data.sources.arrow_columns import becomes_floats, from_arrow
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.errors import on_one_line
from trainshed.data.sources.formats.format import Contents, FragmentRead, Table
from trainshed.storage.addresses import is_address
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import LanceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from trainshed.data.sampler.fragments import Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.opener import FileAccess
    from trainshed.storage.folder import Folder
    from trainshed.storage.store_options import StoreOptions
    from trainshed_api.rows import ReadSpec

# Bytes per task.
FRAGMENT_BYTES = 16 * 2**20
# Lance's default would buffer 2 GiB.
_AHEAD_BYTES, _BATCHES_AHEAD = 64 * 2**20, 2
# Lance raises a ValueError with this text if a bucket did not answer.
_OF_BUCKET = re.compile(r"Generic \w+ error")
_GONE = "Not found:"
_OF_FORKS = "lance is not fork-safe"


class Lance(Table):
    """The fragments of a version of a table, without deleted rows."""

    @override
    def open(
        self, at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess
    ) -> Contents:
        wanted = scan.options_as(LanceOptions).version
        try:
            table = _open(scan.root, wanted, scan.store_options)
        except ValueError as error:
            _raise_if_storage(error, scan.root)
            said = on_one_line(error)
            if wanted is None:
                expected = f"a folder with a Lance table. Reported: {said}"
                raise SpecError([Problem(f"{field}.path", scan.root, expected)]) from error
            expected = f"a version that {scan.root} still has. Reported: {said}"
            problem = Problem(f"{field}.options.version", str(wanted), expected)
            raise SpecError([problem]) from error
        options = scan.options_as(LanceOptions).model_copy(update={"version": table.version})
        floats, integers = _with_missing(table, read.columns, scan.root)
        scan = replace(scan, options=options, schema=table.schema, floats=floats, integers=integers)
        files: list[File] = []
        fragments: list[Fragment] = []
        for number, found in enumerate(table.get_fragments()):
            file = _file(found)
            files.append(file)
            fragments += _cut(f"{scan.root}/{file.path}", number, found, file.bytes)
        return Contents(scan, FileTable.of(files), FragmentTable.of(fragments))

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        fragment, scan, columns, chunk_rows, _ = read
        [number], version = fragment.row_groups, scan.options_as(LanceOptions).version
        assert version is not None
        try:
            found = _kept(scan.root, version, scan.store_options).get_fragment(number)
            assert found
            for batch in found.to_batches(
                columns=list(columns) or None,
                batch_size=chunk_rows,
                strict_batch_size=True,
                offset=fragment.skip,
                limit=fragment.rows,
                batch_readahead=_BATCHES_AHEAD,
                io_buffer_size=_AHEAD_BYTES,
            ):
                yield from_arrow(pa.Table.from_batches([batch]))
        except (ValueError, OSError) as error:
            _raise_if_storage(error, fragment.path)
            raise

    @override
    def place(self, fragment: Fragment, row: int) -> tuple[str, str]:
        return fragment.path, f"row {fragment.skip + row} of fragment {fragment.row_groups[0]}"


@functools.lru_cache(maxsize=4)
def _kept(root: str, version: int, store_options: StoreOptions) -> LanceDataset:
    """Return a version of a table, whose manifest is read once per process."""
    return _open(root, version, store_options)


def _open(root: str, version: int | None, store_options: StoreOptions) -> LanceDataset:
    """Return a version of a table, the newest for None.

    Raises:
        ValueError: for any error.
    """
    import lance

    # Lance warns on every fork; those of Ray become other programs at once.
    warnings.filterwarnings("ignore", message=_OF_FORKS)
    told = None
    if is_address(root):
        from trainshed.storage.store_client import options_of

        told = options_of(root, store_options)
    return lance.dataset(root, version=version, storage_options=told)


def _with_missing(
    table: LanceDataset, columns: Sequence[str], root: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the nullable columns of integers and booleans, by name.

    Columns with integers that float64 would round are last. Each column is searched up to its
    first missing value, because no metadata has it.
    """
    asked = [
        each.name
        for each in table.schema
        if each.nullable and becomes_floats(each.type) and (not columns or each.name in columns)
    ]
    try:
        lacking = [name for name in sorted(asked) if _has_row(table, name, f"`{name}` IS NULL")]
        integers = tuple(name for name in lacking if _is_beyond_floats(table, name))
        return tuple(name for name in lacking if name not in integers), integers
    except (ValueError, OSError) as error:
        _raise_if_storage(error, root)
        raise


def _has_row(table: LanceDataset, name: str, condition: str) -> bool:
    return bool(table.to_table(columns=[name], filter=condition, limit=1).num_rows)


def _is_beyond_floats(table: LanceDataset, name: str) -> bool:
    if not pa.types.is_int64(table.schema.field(name).type):
        return False
    return _has_row(table, name, f"`{name}` > {MOST_EXACT} OR `{name}` < -{MOST_EXACT}")


def _raise_if_storage(error: Exception, where: str) -> None:
    said = on_one_line(error)
    if _OF_BUCKET.search(said):
        raise OSError(errno.EREMOTEIO, said, where) from error
    if _GONE in said and isinstance(error, pa.ArrowException):
        raise FileNotFoundError(errno.ENOENT, said, where) from error


def _file(found: LanceFragment) -> File:
    """Return the identity of a fragment: rows may be deleted and columns added."""
    parts = found.metadata.files
    changes = f"{[part.path for part in parts]} {found.deletion_file()}"
    return File(
        path=f"data/{parts[0].path}",
        bytes=sum(part.file_size_bytes or 0 for part in parts),
        rows=found.count_rows(),
        groups=zlib.crc32(changes.encode()),
    )


def _cut(path: str, number: int, found: LanceFragment, size: int) -> Iterator[Fragment]:
    rows = found.count_rows()
    row_bytes = size / max(1, found.physical_rows)
    step = max(1, round(FRAGMENT_BYTES / row_bytes)) if row_bytes else max(1, rows)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        num_bytes = max(1, round(count * row_bytes))
        groups = (found.fragment_id,)
        yield Fragment(path, number, groups, count, num_bytes, skip=first)
