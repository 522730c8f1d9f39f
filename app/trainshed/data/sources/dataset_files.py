"""A dataset's files in any format: listed, split into fragments for tasks, and read."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.file_tables import UNKNOWN_ROWS, FileTable, FragmentTable, Source
from trainshed.data.sampler.fragments import Holdout, Scan, Selection
from trainshed.data.sources import parquet
from trainshed.data.sources.column_arrays import as_floats, cut_rows, exactly, join, num_rows
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.data.sources.filters import columns_to_read, misfits, row_numbers, selected
from trainshed.data.sources.formats.audio import Audio
from trainshed.data.sources.formats.csv import Csv
from trainshed.data.sources.formats.delta import Delta
from trainshed.data.sources.formats.format import Contents, FragmentRead
from trainshed.data.sources.formats.iceberg import Iceberg
from trainshed.data.sources.formats.json import Json
from trainshed.data.sources.formats.lance import Lance
from trainshed.data.sources.formats.npy import Npy
from trainshed.data.sources.formats.optional_packages import OF_FORMATS, check_package
from trainshed.data.sources.formats.parquet_sample import are_many, open_sample
from trainshed.data.sources.formats.shared_types import spread_out
from trainshed.data.sources.formats.text import Text
from trainshed.data.sources.formats.tfrecords import Tfrecords
from trainshed.data.sources.formats.video import Video
from trainshed.data.sources.formats.webdataset import Webdataset
from trainshed.data.sources.formats.whole_files import Binary, Images
from trainshed.data.sources.listing import ending_of, files_of
from trainshed.data.sources.opener import ACCESS, store_options_of
from trainshed.data.sources.stratifying import KnownStrata, StrataColumn, strata_of
from trainshed.failures import InfrastructureError, is_passing
from trainshed.storage.addresses import is_web, shown
from trainshed.storage.scratch import NoRoomError
from trainshed_api.errors import Problem, SpecError, one_of
from trainshed_api.formats import options_of
from trainshed_api.quantity import parse_bytes
from trainshed_api.where import Both, Compared, Missing, Unquoted, columns_of, parse_where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.formats.format import Format, Reader, Table
    from trainshed.data.sources.opener import FileAccess, Opener
    from trainshed.storage.folder import Folder
    from trainshed_api.formats import FormatName
    from trainshed_api.rows import ReadSpec
    from trainshed_api.where import Condition

FILES: Mapping[FormatName, Format] = {
    "csv": Csv(),
    "json": Json(),
    "text": Text(),
    "images": Images(),
    "binary": Binary(),
    "numpy": Npy(),
    "tfrecords": Tfrecords(),
    "webdataset": Webdataset(),
    "audio": Audio(),
    "video": Video(),
}
TABLES: Mapping[FormatName, Table] = {
    "delta": Delta(),
    "iceberg": Iceberg(),
    "lance": Lance(),
}
_SUFFIXES: Mapping[FormatName, tuple[str, ...]] = {
    "parquet": (parquet.SUFFIX,),
    **{name: form.suffixes for name, form in FILES.items() if form.suffixes},
}
# Bytes from which the rows of all files are estimated, if no metadata has them.
DENSITIES = 4
# Number of files whose column is searched in parallel.
STRATUM_ROWS = 2**16
# Factor of rows to search for a sample of filtered rows.
MOST_LOOKS = 64


def formats_of(names: Iterable[str]) -> list[FormatName]:
    """Return the formats that file endings imply, each once."""
    ends = [ending_of(name) for name in names]
    return [
        form
        for form, suffixes in _SUFFIXES.items()
        if any(name.endswith(suffixes) for name in ends)
    ]


def open_source(  # noqa: PLR0913 - files, and how they are got at
    at: Folder,
    read: ReadSpec,
    field: str,
    access: FileAccess = ACCESS,
    *,
    skips_bad: bool = False,
    known: KnownStrata | None = None,
    begun_with: str | None = None,
) -> Source:
    """List a file, all files of a folder or those of a table, and split them into fragments.

    Args:
        at: a file or a folder; unused for a table in a catalog.
        read: the spec's `read`, with a format.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
        access: to the storage.
        skips_bad: whether to skip bad records; else the first ends the run.
        known: results for columns of files that other datasets share; updated here.
        begun_with: fingerprint of the files when the run began; None if it begins.

    Raises:
        InfrastructureError: if the storage does not return what is needed.
        SpecError: if the path, a file, a column or the format's package is missing, a file has
            another format, or the files do not match.
    """
    assert read.format
    if read.format in OF_FORMATS:
        check_package(read.format, field)
    path = f"{field}.path"
    try:
        source = _opened(at, read, field, access, begun_with, skips_bad=skips_bad)
        return _stratified(source, f"{field}.holdout", access, known or KnownStrata())
    except OSError as error:
        if is_passing(error):
            raise InfrastructureError(f"{path}: {error}", "storage") from error
        if isinstance(error, NoRoomError):
            raise InfrastructureError(f"{path}: {error.strerror}", "scratch") from error
        raise SpecError([Problem(path, str(at), str(error))]) from error
    except DataError as error:
        where, _, said = str(error).partition(": ")
        raise SpecError([Problem(path, None, f"{where} cannot be read: {said}")]) from error


def _opened(  # noqa: PLR0913 - files, and how they are got at
    at: Folder,
    read: ReadSpec,
    field: str,
    access: FileAccess,
    begun_with: str | None,
    *,
    skips_bad: bool,
) -> Source:
    assert read.format
    selection = selection_of(read)
    scan = Scan(
        root=str(at),
        skips_bad=skips_bad,
        store_options=store_options_of(read),
        cache_bytes=parse_bytes(read.local_cache) if read.local_cache else 0,
        nonce=uuid.uuid4().hex if is_web(str(at)) else "",
    )
    access = access.of(scan)
    if read.format == "parquet":
        found = _open_parquet(at, read, selection, field, access, begun_with)
        scan = replace(
            scan,
            schema=found.scan.schema,
            floats=found.scan.floats,
            integers=found.scan.integers,
        )
        return _selected(replace(found, scan=scan), selection, read, field)
    begun = replace(scan, format=read.format, options=options_of(read.format, read.options))
    contents = access.retry_policy.read(lambda: _open(at, read, begun, field, access))
    density = access.retry_policy.read(lambda: _density(contents, access.opened))
    scan, files, fragments = contents
    _check_columns(scan.schema, read.columns, f"{field}.columns")
    if not fragments:
        at_least = "files with at least one row"
        raise SpecError([Problem(f"{field}.path", shown(read.path or ""), at_least)])
    found = Source(fragments, files, scan.schema, files.digest, scan)
    found = replace(found, likely_rows=max(1, int(density * found.num_bytes)))
    return _selected(found, selection, read, field)


def _open(at: Folder, read: ReadSpec, scan: Scan, field: str, access: FileAccess) -> Contents:
    """Return how to read the files of a folder or a table, before any row is read."""
    if table := TABLES.get(scan.format):
        return table.open(at, read, scan, field, access)
    form = FILES[scan.format]
    files = files_of(at, str(scan.format), form.suffixes, field)
    scan, fragments = form.open(files, scan, field, access.opened)
    described = FileTable(files.names, files.num_bytes)
    # Reading checks that the files still have the listed content.
    found = (
        FragmentTable.of_files(files.num_bytes, files.paths, files.versions)
        if fragments is None
        else FragmentTable(fragments, files.paths, files.versions)
    )
    return Contents(scan, described, found)


def _open_parquet(  # noqa: PLR0913, PLR0917 - files, and how they are got at
    at: Folder,
    read: ReadSpec,
    selection: Selection,
    field: str,
    access: FileAccess,
    begun_with: str | None,
) -> Source:
    """Return parquet files with the row counts of their footers, or many without."""
    files = access.retry_policy.read(lambda: files_of(at, "parquet", [parquet.SUFFIX], field))
    # The number of rows of a value must not depend on the condition: the other side may differ.
    where = None if read.holdout and read.holdout.stratify else selection.where
    # Both sides of a split by position need the same fragments, and a condition needs all footers.
    has_positions = read.holdout is not None and read.holdout.by is None
    if where is None and not has_positions and are_many(files):
        found = open_sample(files, str(at), read.columns, selection.asked, field, access)
        # A run of an earlier release goes on with row counts, on which its order depends.
        if found and begun_with in {None, found.fingerprint}:
            return found
    where_name = "where" if read.where else "holdout.before"
    return parquet.open_source(
        files,
        str(at),
        read.columns,
        field,
        access,
        asked=selection.asked,
        where=where,
        where_name=where_name,
    )


def _reader(scan: Scan) -> Reader:
    return TABLES.get(scan.format) or FILES[scan.format]


def selection_of(read: ReadSpec) -> Selection:
    """Return the selection of rows in a spec's `read`."""
    conditions = tuple(_conditions(read).values())
    where = conditions[0] if len(conditions) == 1 else Both(conditions, all=True)
    held = read.holdout
    holdout = None
    if held and held.share is not None:
        holdout = Holdout(held.share, held.keep == "held", held.seed, held.by, held.stratify)
    return Selection(where if conditions else None, holdout)


def _conditions(read: ReadSpec) -> dict[str, Condition]:
    """Return the conditions that all rows to read satisfy, by the field below `read`."""
    found: dict[str, Condition] = {}
    if read.where:
        found["where"] = parse_where(read.where)
    if read.holdout and read.holdout.by and read.holdout.before:
        column, time = read.holdout.by, Unquoted(read.holdout.before)
        later = Compared(column, ">=", time)
        earlier = Both((Compared(column, "<", time), Missing(column)), all=False)
        found["holdout.before"] = later if read.holdout.keep == "held" else earlier
    return found


def moving_options(scan: Scan) -> dict[str, JsonValue]:
    """Return the options, as in a spec, that may affect row positions in files.

    Args:
        scan: how to read the file.
    """
    if scan.format == "parquet":  # which has none
        return {}
    return scan.options.model_dump(by_alias=True, exclude=set(_reader(scan).unmoving))


def _check_columns(schema: pa.Schema | None, columns: Iterable[str], field: str) -> None:
    if schema is None:  # known only after reading a row
        return
    problems = [
        Problem(field, name, one_of(name, schema.names))
        for name in columns
        if name not in schema.names
    ]
    if problems:
        raise SpecError(problems)


def _selected(source: Source, selection: Selection, read: ReadSpec, field: str) -> Source:
    """Return a source whose rows may be filtered."""
    if not selection:
        return source
    if read.holdout and read.holdout.by:
        _check_columns(source.schema, [read.holdout.by], f"{field}.holdout.by")
    for name, condition in _conditions(read).items():
        _check_columns(source.schema, columns_of(condition), f"{field}.{name}")
        wrong = misfits(condition, source.schema) if source.schema else ()
        if problems := [Problem(f"{field}.{name}", got, expected) for got, expected in wrong]:
            raise SpecError(problems)
    scan = replace(source.scan, selection=selection)
    likely = max(1, round(source.about_rows * selection.share))
    return replace(source, scan=scan, likely_rows=likely)


def _stratified(source: Source, field: str, access: FileAccess, known: KnownStrata) -> Source:
    """Return a source with the result of a stratified split.

    Only the column is read, whatever else the dataset reads: bad values in other columns, or
    transforms, must not change the split of a dataset that shares the files.
    """
    holdout = source.scan.selection.holdout
    if holdout is None or holdout.stratify is None:
        return source
    column = holdout.stratify
    _check_columns(source.schema, [column], f"{field}.stratify")
    # The planning node caches no files: for most formats it fetches only this column.
    bare = replace(source.scan, selection=Selection(), cache_bytes=0)
    if bare.format not in FILES:  # other formats read a single column differently
        bare = replace(bare, floats=(), integers=())

    def read(fragment: Fragment) -> Iterator[Columns | BadRecord]:
        reading = read_records if bare.skips_bad else read_fragment
        return iter(reading(bare, fragment, (column,), STRATUM_ROWS, access))

    def number(fragment: Fragment, place: int, rows: int) -> Indices:
        return row_numbers(bare, fragment, place, rows, holdout.seed)

    looked = StrataColumn(column, f"{field}.stratify", read, number)
    files = [file.path for file in source.files]
    shared, way = (bare.root, files, column, holdout.share, holdout.seed), (bare, source.fragments)
    strata = known.get(shared, way, lambda: strata_of(looked, source.fragments, holdout.share))
    if not known.agrees(shared):
        expected = (
            "the values that another dataset finds in these files: read both with one options"
        )
        raise looked.refusal(expected)
    if not strata.rows:
        raise looked.refusal("a column that can be read: no record's can")
    kept = strata.held if holdout.held else strata.rows - strata.held
    if not kept:
        expected = "a larger share" if holdout.held else "a smaller share"
        why = f"no value of {column} has enough rows to leave one here"
        raise SpecError([Problem(f"{field}.share", f"{holdout.share:g}", f"{expected}: {why}")])
    selection = replace(source.scan.selection, holdout=replace(holdout, strata=strata))
    scan = replace(source.scan, selection=selection)
    return replace(source, scan=scan, likely_rows=kept)


def _density(source: Contents, opened: Opener) -> float:
    """Return the estimated rows per stored byte; 0 if each fragment has a row count."""
    uncounted = np.flatnonzero(source.fragments.rows == UNKNOWN_ROWS)
    if not uncounted.size:
        return 0.0
    reader = _reader(source.scan)
    seen = [
        reader.density(source.fragments[int(uncounted[place])], source.scan, opened)
        for place in spread_out(len(uncounted), DENSITIES)
    ]
    return sum(seen) / len(seen)


def read_fragment(
    scan: Scan,
    fragment: Fragment,
    columns: Sequence[str],
    chunk_rows: int,
    access: FileAccess = ACCESS,
) -> Iterator[Columns]:
    """Yield the rows of a fragment in tables of at most `chunk_rows` rows.

    Args:
        scan: how to read its files.
        fragment: to read.
        columns: to read; empty for all.
        chunk_rows: maximum rows of a table.
        access: to the storage.

    Raises:
        DataError: with file and position, for the first record that cannot be decoded.
        InfrastructureError: with the file, if the storage does not return it.
    """
    for found in read_records(scan, fragment, columns, chunk_rows, access):
        if isinstance(found, BadRecord):
            raise DataError(f"{found.say()}; onBadRecord: skip leaves such records out")
        yield found


def read_records(
    scan: Scan,
    fragment: Fragment,
    columns: Sequence[str],
    chunk_rows: int,
    access: FileAccess = ACCESS,
) -> Iterator[Columns | BadRecord]:
    """Yield the same, with records that cannot be decoded between the rows around them.

    Args:
        scan: how to read its files.
        fragment: to read.
        columns: to read; empty for all.
        chunk_rows: maximum rows of a table.
        access: to the storage.

    Raises:
        DataError: with file and position, if nothing after it can be read either.
        InfrastructureError: with the file, if the storage does not return it.
    """
    access = access.of(scan, fragment)
    if scan.format == "parquet":
        try:
            for table in parquet.read_fragment(fragment, columns, chunk_rows, access, scan.schema):
                yield _given(table, scan, fragment)
        except DataError:
            access.check_again(fragment)
            raise
        access.check_again(fragment)
        return
    reader, done, pauses = _reader(scan), 0, iter(access.retry_policy.pauses)
    while True:
        try:
            read = FragmentRead(fragment, scan, columns, chunk_rows, access.opened)
            tables = reader.tables(read)
            for found in islice(tables, done, None):
                yield found if isinstance(found, BadRecord) else _given(found, scan, fragment)
                done += 1
        except (OSError, pa.ArrowException) as error:
            access.check_again(fragment)
            # It existed when the run was planned.
            gone = isinstance(error, (FileNotFoundError, PermissionError))
            if not (is_passing(error) or gone):
                if getattr(error, "errno", None) is not None or isinstance(error, MemoryError):
                    raise
                raise DataError(f"{fragment.path}: {' '.join(str(error).split())}") from error
            pause = next(pauses, None)
            if pause is None:
                said = on_one_line(error)
                raise InfrastructureError(
                    f"{fragment.path}: cannot be read: {said}", "storage"
                ) from error
            access.retry_policy.rest(pause)
        else:
            access.check_again(fragment)
            return


def _given(table: Columns, scan: Scan, fragment: Fragment) -> Columns:
    """Return columns with one type in all tables; a condition first sees exact integers."""
    table = as_floats(table, scan.floats)
    if scan.selection or scan.masks:
        return table
    return exactly(table, fragment.path, scan.floats, scan.integers)


def place_of(scan: Scan, fragment: Fragment, row: int) -> tuple[str, str]:
    """Return the file of a row, and its position there.

    Args:
        scan: how to read its files.
        fragment: that has it.
        row: index from the fragment's beginning, including bad records before it.
    """
    if scan.format == "parquet":
        return fragment.path, f"row {row} of {fragment.say_row_groups()}"
    return _reader(scan).place(fragment, row)


def read_sample(
    scan: Scan,
    fragment: Fragment,
    columns: Sequence[str],
    rows: int,
    access: FileAccess = ACCESS,
) -> Columns:
    """Return at most this many of the first rows of a fragment; no column if there are none.

    With a filter, the selected rows among the first ones: the search is limited.

    Raises:
        DataError: with the file, if they cannot be decoded.
        InfrastructureError: with the file, if the storage does not return them.
    """
    access = access.of(scan, is_brief=True)
    if scan.selection:
        read = read_fragment(scan, fragment, columns_to_read(scan, columns), rows, access)
        chosen = selected(islice(read, MOST_LOOKS), scan, fragment, columns)
        found: list[Columns] = []
        while sum(map(num_rows, found)) < rows and (table := next(chosen, None)) is not None:
            found += [table] if num_rows(table) else []
        return cut_rows(join(found), 0, rows) if found else {}
    if scan.format == "parquet":
        sample = parquet.read_sample(fragment, columns, rows, access, scan.schema)
        return _given(sample, scan, fragment)
    first = next(read_fragment(scan, fragment, columns, rows, access), {})
    return cut_rows(first, 0, rows)
