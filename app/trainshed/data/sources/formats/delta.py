"""Delta tables: deltalake reads the log of a version, and parquet code reads its files."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.file_tables import FileTable, FragmentTable
from trainshed.data.sources.arrow_columns import becomes_floats
from trainshed.data.sources.errors import on_one_line
from trainshed.data.sources.formats.format import Contents, FragmentRead, Table
from trainshed.data.sources.formats.table_files import read_row_groups
from trainshed.data.sources.listing import Found
from trainshed.data.sources.parquet import ColumnFacts, cut, describe, read_footers
from trainshed.storage.addresses import is_address
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import DeltaOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable

    from trainshed.data.sampler.fragments import File, Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.opener import FileAccess
    from trainshed.storage.folder import Folder
    from trainshed_api.rows import ReadSpec

_COLOURS = re.compile(r"\x1b\[\d+m")


class Delta(Table):
    """The files of a version of a table, with its partitions as columns."""

    @override
    def open(
        self, at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess
    ) -> Contents:
        table = _table(scan, field)
        _check_readable(table, scan, field)
        options = scan.options_as(DeltaOptions).model_copy(update={"version": table.version()})
        schema = pa.schema(table.schema().to_arrow())
        # Sorted by name, as all files: the log has no order.
        added = sorted(pa.table(table.get_add_actions()).to_pylist(), key=lambda each: each["path"])
        files = [_found(scan.root, each["path"], each["size_bytes"]) for each in added]
        partitions: list[dict[str, object]] = [each.get("partition") or {} for each in added]
        fragments: list[Fragment] = []
        described: list[File] = []
        facts, footers = ColumnFacts(read.columns), read_footers(files, field, access)
        for number, (file, footer) in enumerate(zip(files, footers, strict=True)):
            facts.add(file.where, footer)
            described.append(describe(file, footer))
            constants = tuple(sorted(partitions[number].items()))
            fragments += [
                replace(fragment, constants=constants)
                for fragment in cut(file.where, number, footer)
            ]
        asked = set(read.columns or schema.names)
        stored = asked.difference(*partitions)
        in_files = pa.schema([each for each in schema if each.name in stored])
        floats = facts.with_missing(in_files, access)
        floats |= {
            name
            for each in partitions
            for name, value in each.items()
            if value is None and name in asked and becomes_floats(schema.field(name).type)
        }
        integers = tuple(sorted(facts.beyond_floats(schema, floats)))
        floats = floats.difference(integers)
        scan = replace(scan, options=options, schema=schema, floats=tuple(sorted(floats)))
        scan = replace(scan, integers=integers)
        return Contents(scan, FileTable.of(described), FragmentTable.of(fragments))

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        return read_row_groups(read)


def _table(scan: Scan, field: str) -> DeltaTable:
    """Return the log of the requested version, or of the newest.

    Raises:
        SpecError: if there is none.
        OSError: if the storage does not return it.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    version, told = scan.options_as(DeltaOptions).version, None
    if is_address(scan.root):
        from trainshed.storage.store_client import options_of

        told = options_of(scan.root, scan.store_options)
    try:
        return DeltaTable(scan.root, version=version, storage_options=told)
    except TableNotFoundError as error:
        expected = "a folder with the log of a Delta table, _delta_log"
        raise SpecError([Problem(f"{field}.path", scan.root, expected)]) from error
    except DeltaError as error:
        said = on_one_line(error)
        if version is None:
            expected = f"a Delta table that deltalake reads. Reported: {said}"
            raise SpecError([Problem(f"{field}.path", scan.root, expected)]) from error
        expected = f"a version that {scan.root} still has. Reported: {said}"
        raise SpecError([Problem(f"{field}.options.version", str(version), expected)]) from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Error texts of buckets without a number have colors and several lines.
        said = " ".join(_COLOURS.sub("", str(error)).split())
        raise OSError(errno.EREMOTEIO, said, scan.root) from error


def _check_readable(table: DeltaTable, scan: Scan, field: str) -> None:
    """Refuse features that the files alone do not show.

    Raises:
        SpecError: for files with deleted rows, and for columns with other names there.
    """
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    features = table.protocol().reader_features or []
    if mapping != "none":
        expected = "a Delta table without column mapping: copy it into one"
        raise SpecError([Problem(f"{field}.path", f"{scan.root} with mode {mapping}", expected)])
    if "deletionVectors" in features:
        vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors())
        marked = sum(batch.num_rows for batch in vectors)
        if marked:
            got = f"{scan.root} with {marked} files that have deletion vectors"
            expected = "none: rewrite these files by REORG TABLE ... APPLY (PURGE)"
            raise SpecError([Problem(f"{field}.path", got, expected)])


def _found(root: str, path: str, size: int) -> Found:
    """Return a file of the log, whose paths are URL-encoded."""
    name = unquote(path)
    return Found(name if "://" in path else f"{root}/{name}", name, size)
