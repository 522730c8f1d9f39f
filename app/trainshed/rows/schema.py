"""What is known of an input: columns, files, rows, and how they are cut into what tasks read."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from trainshed.rows.reading import samples
from trainshed.rows.values import say_type
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.data.read.columns import Columns
    from trainshed.rows.inputs import Input


class Column(Record):
    """A column; a type is None where it is not there.

    Args:
        name: of it.
        stored: what the files say of its type, as Arrow has it.
        read: as transforms get it.
        after: after the transforms.
    """

    name: str
    stored: str | None
    read: str | None
    after: str | None


class Fragments(Record):
    """What tasks read: how many, and their bytes, decoded or as they are stored."""

    count: int
    least_bytes: int
    median_bytes: int
    most_bytes: int


class Schema(Record):
    """What is known of an input.

    Args:
        format: of the files.
        files: how many.
        bytes: of all files.
        rows: before the transforms; None where only reading tells.
        likely_rows: about how many.
        columns: in their order; first those that are read.
        has_transforms: whether there are any.
        classes: names of the labels, by number.
        fragments: that tasks read.
    """

    format: str
    files: int
    bytes: int
    rows: int | None
    likely_rows: int
    columns: tuple[Column, ...]
    has_transforms: bool
    classes: tuple[str, ...]
    fragments: Fragments


def describe(given: Input) -> Schema:
    """Return what is known of an input; types are those of rows at eight places at most.

    Raises:
        DataError: when these rows cannot be read or transformed.
        WorldError: when the storage does not give them.
    """
    source, looked = given.source, samples(given)
    sizes = [fragment.num_bytes for fragment in source.fragments]
    stored = {field.name: _stored(field.type) for field in source.schema or ()}
    read = _types([before for before, _ in looked])
    after = _types([after for _, after in looked])
    names = dict.fromkeys([*read, *after])
    return Schema(
        format=source.scan.format,
        files=len(source.files),
        bytes=sum(file.bytes for file in source.files),
        rows=source.rows,
        likely_rows=source.about_rows,
        columns=tuple(
            Column(name=name, stored=stored.get(name), read=read.get(name), after=after.get(name))
            for name in names
        ),
        has_transforms=bool(given.transforms),
        classes=source.scan.classes,
        fragments=Fragments(
            count=len(sizes),
            least_bytes=min(sizes),
            median_bytes=int(median(sizes)),
            most_bytes=max(sizes),
        ),
    )


def _stored(kind: pa.DataType) -> str:
    if isinstance(kind, pa.FixedShapeTensorType):
        return f"{kind.value_type}{list(kind.shape)}"
    return str(kind)


def _types(tables: Sequence[Columns]) -> Mapping[str, str]:
    """Return the type of each column; all of them where places differ."""
    found: dict[str, dict[str, None]] = {}
    for table in tables:
        for name, kind in _of_table(table):
            found.setdefault(name, {})[kind] = None
    return {name: " or ".join(kinds) for name, kinds in found.items()}


def _of_table(table: Columns) -> Iterator[tuple[str, str]]:
    for name, array in table.items():
        if len(array):
            yield name, say_type(array)
