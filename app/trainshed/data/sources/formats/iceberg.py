"""Iceberg tables: pyiceberg reads the metadata of a snapshot, parquet code reads its files.

pyiceberg itself reads files with another schema than the table's, and files with deleted rows,
each in one task.
"""

from __future__ import annotations

import errno
import functools
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.file_tables import FileTable, FragmentTable
from trainshed.data.sampler.fragments import File, Fragment
from trainshed.data.sources.arrow_columns import becomes_floats, in_tables
from trainshed.data.sources.errors import on_one_line
from trainshed.data.sources.formats.format import Contents, FragmentRead, Table
from trainshed.data.sources.formats.table_files import read_row_groups
from trainshed.data.sources.listing import Found
from trainshed.data.sources.parquet import ColumnFacts, cut, describe, read_footers
from trainshed.failures import is_passing
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import IcebergOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Properties

    from trainshed.data.sampler.fragments import Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.opener import FileAccess, Opener
    from trainshed.storage.folder import Folder
    from trainshed_api.rows import ReadSpec

_FILES = "trainshed.data.sources.formats.iceberg_files.IcebergFileIO"
_FIELD_ID = b"PARQUET:field_id"


class _Snapshot(NamedTuple):
    """The content of a snapshot: its columns, and its files by path or address."""

    metadata: TableMetadata
    schema: Schema
    tasks: Mapping[str, FileScanTask]


class Iceberg(Table):
    """The files of a snapshot of a table, found through its catalog."""

    unmoving = ("catalog",)

    @override
    def open(
        self, at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess
    ) -> Contents:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        assert read.path
        root, newest = _find(read.path, scan.options_as(IcebergOptions), field)
        wanted = scan.options_as(IcebergOptions).snapshot
        number = newest if wanted is None else wanted
        if number is None:
            raise SpecError([Problem(f"{field}.path", read.path, "a table with at least one row")])
        try:
            snapshot = _snapshot(root, number, access.opened)
        except KeyError as error:
            expected = f"a snapshot that {read.path} still has"
            raise SpecError(
                [Problem(f"{field}.options.snapshot", str(number), expected)]
            ) from error
        except ValueError as error:  # deletes that pyiceberg does not support
            expected = f"a table that pyiceberg reads. Reported: {on_one_line(error)}"
            raise SpecError([Problem(f"{field}.path", read.path, expected)]) from error
        schema = schema_to_pyarrow(snapshot.schema, include_field_ids=False)
        options = scan.options_as(IcebergOptions).model_copy(update={"snapshot": number})
        scan = replace(scan, options=options, schema=schema, root=root)
        return _cut(scan, snapshot, read.columns, field, access)

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        return read_row_groups(read) if read.fragment.row_groups else _by_pyiceberg(read)

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        task = _of(scan, opened).tasks[fragment.path]
        return task.file.record_count / max(1, fragment.num_bytes)


def _find(name: str, options: IcebergOptions, field: str) -> tuple[str, int | None]:
    """Return the location of a table's metadata, and its newest snapshot.

    Raises:
        SpecError: if the catalog is misconfigured, or does not have the table.
        OSError: if it does not answer.
    """
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ServerError

    properties = {"py-io-impl": _FILES, **options.catalog}
    try:
        with load_catalog(**properties) as catalog:
            # Properties of a table or a server could name another one: any function at all.
            catalog._load_file_io = _files  # type: ignore[method-assign]
            table = catalog.load_table(name)
    except (NoSuchNamespaceError, NoSuchTableError) as error:
        expected = "a table of the catalog, namespace.table"
        raise SpecError([Problem(f"{field}.path", name, expected)]) from error
    except Exception as error:  # each kind of catalog has its own library
        said = on_one_line(error)
        if isinstance(error, (OSError, ServerError)) or is_passing(error):
            raise OSError(errno.EREMOTEIO, said, name) from error
        expected = f"a catalog with the table {name}. Check its address and credentials"
        raise SpecError([Problem(f"{field}.options.catalog", said, expected)]) from error
    newest = table.metadata.current_snapshot_id
    return table.metadata_location, newest


def _files(properties: Properties | None = None, location: str | None = None) -> FileIO:  # noqa: ARG001
    """Return the file access, ignoring the properties of a catalog."""
    from trainshed.data.sources.formats.iceberg_files import IcebergFileIO

    return IcebergFileIO()


def _of(scan: Scan, opened: Opener) -> _Snapshot:
    number = scan.options_as(IcebergOptions).snapshot
    assert number is not None
    return _snapshot(scan.root, number, opened)


@functools.lru_cache(maxsize=4)
def _snapshot(root: str, number: int, opened: Opener) -> _Snapshot:
    """Return the content of a snapshot, cached per process.

    Raises:
        KeyError: if the metadata have no such snapshot.
        ValueError: if it has deletes that pyiceberg does not support.
    """
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table as IcebergTable

    from trainshed.data.sources.formats.iceberg_files import IcebergFileIO, where_of

    files = IcebergFileIO(opened=opened)
    metadata = FromInputFile.table_metadata(files.new_input(root))
    if metadata.snapshot_by_id(number) is None:
        raise KeyError(number)
    table = IcebergTable(("trainshed",), metadata, root, files, NoopCatalog("trainshed"))
    found = table.scan(snapshot_id=number)
    # Columns may have been renamed since the newest one was written.
    is_newest = number == metadata.current_snapshot_id
    schema = metadata.schema() if is_newest else found.projection()
    tasks = {where_of(task.file.file_path): task for task in found.plan_files()}
    return _Snapshot(metadata, schema, tasks)


def _cut(
    scan: Scan, snapshot: _Snapshot, columns: Sequence[str], field: str, access: FileAccess
) -> Contents:
    """Return the files by name that are plain parquet with row groups."""
    at = snapshot.metadata.location.rstrip("/")
    plain = {
        where: Found(where, task.file.file_path, task.file.file_size_in_bytes)
        for where, task in snapshot.tasks.items()
        if not task.delete_files and task.file.file_format == "PARQUET"
    }
    footers = read_footers(list(plain.values()), field, access)
    by_path = dict(zip(plain, footers, strict=True))
    files: list[File] = []
    fragments: list[Fragment] = []
    facts = ColumnFacts(columns)
    lacking: set[str] = set()
    for number, (where, task) in enumerate(sorted(snapshot.tasks.items())):
        file, footer = task.file, by_path.get(where)
        name = file.file_path.removeprefix(f"{at}/")
        constants = _constants(task, scan, snapshot)
        if footer is not None and _is_plain(footer, scan, snapshot.schema):
            files.append(describe(Found(where, name, file.file_size_in_bytes), footer))
            fragments += [replace(each, constants=constants) for each in cut(where, number, footer)]
            facts.add(where, footer)
            continue
        deletes = "".join(sorted(each.file_path for each in task.delete_files))
        groups, size = zlib.crc32(deletes.encode()), file.file_size_in_bytes
        files.append(File(path=name, bytes=size, rows=file.record_count, groups=groups))
        if file.record_count:
            lacking.update(_with_missing(file, snapshot))
            rows = None if deletes else file.record_count
            fragments.append(Fragment(where, number, (), rows, size, constants=constants))
    assert scan.schema
    counted = facts.with_missing(scan.schema, access)
    floats = counted | {
        each.name
        for each in scan.schema
        if each.name in lacking.intersection(columns or lacking) and becomes_floats(each.type)
    }
    integers = facts.beyond_floats(scan.schema, floats)
    scan = replace(scan, floats=tuple(sorted(floats - integers)), integers=tuple(sorted(integers)))
    return Contents(scan, FileTable.of(files), FragmentTable.of(fragments))


def _with_missing(file: DataFile, snapshot: _Snapshot) -> Iterator[str]:
    """Yield the columns in which a file may lack values: not all have counts."""
    constants, counts = _values_of(file, snapshot), file.null_value_counts or {}
    for column in snapshot.schema.fields:
        has_row_counts = column.required or constants.get(column.field_id) is not None
        if counts.get(column.field_id, 0 if has_row_counts else 1):
            yield column.name


def _constants(
    task: FileScanTask, scan: Scan, snapshot: _Snapshot
) -> tuple[tuple[str, object], ...]:
    """Return the columns with one value in all rows of a file, from its partition.

    Only numbers and texts: partition values of other types differ from column values.
    """
    assert scan.schema
    found: dict[str, object] = {}
    for number, value in _values_of(task.file, snapshot).items():
        name = snapshot.schema.find_column_name(number)
        if name is None or name not in scan.schema.names:
            continue
        kind = scan.schema.field(name).type
        if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found[name] = value
    return tuple(sorted(found.items()))


def _values_of(file: DataFile, snapshot: _Snapshot) -> dict[int, object]:
    """Return the partition values of a file, by column number."""
    from pyiceberg.transforms import IdentityTransform

    return {
        part.source_id: file.partition[place]
        for place, part in enumerate(snapshot.metadata.specs()[file.spec_id].fields)
        if isinstance(part.transform, IdentityTransform)
    }


def _is_plain(footer: pq.FileMetaData, scan: Scan, schema: Schema) -> bool:
    """Return whether a file has the table's columns under the same names and numbers."""
    stored = footer.schema.to_arrow_schema()
    assert scan.schema
    for column in schema.fields:
        if column.name not in stored.names:
            return False
        found, kind = stored.field(column.name), scan.schema.field(column.name).type
        if (found.metadata or {}).get(_FIELD_ID) != str(column.field_id).encode():
            return False
        if pa.types.is_nested(kind) and found.type != kind:
            return False
    return True


def _by_pyiceberg(read: FragmentRead) -> Iterator[Columns]:
    """Yield the remaining rows of a file, with the columns of the table."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    from trainshed.data.sources.formats.iceberg_files import IcebergFileIO

    fragment, scan, columns, chunk_rows, opened = read
    assert scan.schema
    snapshot = _of(scan, opened)
    schema = snapshot.schema.select(*columns) if columns else snapshot.schema
    wanted = pa.schema([scan.schema.field(name) for name in columns or scan.schema.names])
    reading = ArrowScan(snapshot.metadata, IcebergFileIO(opened=opened), schema, AlwaysTrue())
    for batch in reading.to_record_batches([snapshot.tasks[fragment.path]]):
        table = pa.Table.from_batches([batch]).select(wanted.names).cast(wanted)
        yield from in_tables(table, chunk_rows)
