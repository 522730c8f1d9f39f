"""Describes an input: columns, files, rows, and the fragments that tasks read."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from trainshed.data.sources.arrow_columns import say_stored
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.reading import SHOWN_BYTES, samples
from trainshed.inspect.values import say_type
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.inspect.inputs import RowInput


class ColumnInfo(Record):
    """A column; a type is None where the column does not exist.

    Args:
        name: of it.
        stored: type in the files, as an Arrow type.
        read: type that transforms get.
        after: type after the transforms.
    """

    name: str
    stored: str | None
    read: str | None
    after: str | None


class Fragments(Record):
    """The fragments that tasks read: their number and size, decoded or as stored."""

    count: int
    least_bytes: int
    median_bytes: int
    most_bytes: int


class Schema(Record):
    """The description of an input.

    Args:
        format: of the files, or the name of the function that makes the rows.
        files: number of files; None if there are none.
        bytes: of all files.
        rows: before the transforms; None if only reading tells.
        likely_rows: estimate; None if only making them tells.
        columns: in order; first those that are read.
        has_transforms: whether there are any.
        classes: names of the labels, by index.
        fragments: None if there are no files.
    """

    format: str
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    likely_rows: int | None = None
    columns: tuple[ColumnInfo, ...]
    has_transforms: bool
    classes: tuple[str, ...]
    fragments: Fragments | None = None


def describe(given: RowInput | GeneratedRows) -> Schema:
    """Return the description of an input; types are those of rows at up to eight positions.

    For rows of Ray Data they are those of the first rows.

    Raises:
        DataError: if these rows cannot be read, transformed or made.
        InfrastructureError: if the storage does not return them.
    """
    if isinstance(given, GeneratedRows):
        return _of_made(given)
    source, looked = given.source, samples(given.unrounded())
    columns = _columns(
        source.schema, [before for before, _ in looked], [after for _, after in looked]
    )
    return _of_files(source, columns, has_transforms=bool(given.transforms))


def _of_made(given: GeneratedRows) -> Schema:
    after = next(given.tables(SHOWN_BYTES), None)
    before = next(given.before().tables(SHOWN_BYTES), None) if given.transforms else after
    columns = _columns(
        before.types if before else None,
        [before.columns] if before else [],
        [after.columns] if after else [],
    )
    if given.plan.source is not None:
        return _of_files(given.plan.source, columns, has_transforms=True)
    return Schema(
        format=given.maker, columns=columns, has_transforms=bool(given.transforms), classes=()
    )


def _of_files(source: Source, columns: tuple[ColumnInfo, ...], *, has_transforms: bool) -> Schema:
    sizes = source.fragments.num_bytes.tolist()
    return Schema(
        format=source.scan.format,
        files=len(source.files),
        bytes=int(source.files.num_bytes.sum(dtype="int64")),
        rows=source.rows,
        likely_rows=source.about_rows,
        columns=columns,
        has_transforms=has_transforms,
        classes=source.scan.classes,
        fragments=Fragments(
            count=len(sizes),
            least_bytes=min(sizes),
            median_bytes=int(median(sizes)),
            most_bytes=max(sizes),
        ),
    )


def _columns(
    schema: pa.Schema | None, before: Sequence[Columns], after: Sequence[Columns]
) -> tuple[ColumnInfo, ...]:
    stored = {field.name: say_stored(field) for field in schema or ()}
    read, made = _types(before), _types(after)
    return tuple(
        ColumnInfo(name=name, stored=stored.get(name), read=read.get(name), after=made.get(name))
        for name in dict.fromkeys([*read, *made])
    )


def _types(tables: Sequence[Columns]) -> Mapping[str, str]:
    """Return the type of each column; all of its types if positions differ."""
    found: dict[str, dict[str, None]] = {}
    for table in tables:
        for name, array in table.items():
            if len(array):
                found.setdefault(name, {})[say_type(array)] = None
    return {name: " or ".join(kinds) for name, kinds in found.items()}
