"""Plans many small parquet files from a sample of their footers: each file is a fragment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.file_tables import FileTable, FragmentTable, Source
from trainshed.data.sampler.fragments import Scan
from trainshed.data.sources.arrow_columns import becomes_floats
from trainshed.data.sources.formats.shared_types import drawn
from trainshed.data.sources.parquet import (
    FRAGMENT_BYTES,
    ColumnFacts,
    checked_schema,
    cut,
    read_footers,
)
from trainshed.data.sources.unified_schema import with_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.data.sources.listing import Listing
    from trainshed.data.sources.opener import FileAccess

# Footers of so many files are all read, which takes 1 to 2 s on a disk: they have row counts.
MOST_COUNTED = 10_000


def are_many(files: Listing) -> bool:
    """Return whether reading all footers takes long beside the rows: many files, all small."""
    return len(files) > MOST_COUNTED and int(files.num_bytes.max()) <= FRAGMENT_BYTES


def open_sample(  # noqa: PLR0913, PLR0917 - files, and what of them is read
    files: Listing,
    root: str,
    columns: Sequence[str],
    asked: Sequence[str],
    field: str,
    access: FileAccess,
) -> Source | None:
    """Return files whose types are those of a seeded sample, and whose rows are not counted.

    None if the sample has no rows, or a file of several fragments: all footers are needed.

    A file outside of the sample that does not fit is refused by the task that reads it.

    Args:
        files: to read.
        root: their folder.
        columns: that must exist; empty for all.
        asked: columns that decide which rows are read.
        field: the spec's field to name in errors, e.g. `spec.data.datasets.train.read`.
        access: to the storage.

    Raises:
        InfrastructureError: if the storage does not return a footer.
        SpecError: if a column is missing, a file of the sample is not parquet, or a column has no
            common type.
    """
    sample = [files[number] for number in drawn(len(files))]
    facts, rows = ColumnFacts(columns), 0
    for file, footer in zip(sample, read_footers(sample, field, access), strict=True):
        if len(cut(file.where, 0, footer)) > 1:
            return None
        facts.add(file.where, footer)
        rows += footer.num_rows
    if not rows:
        return None
    schemas = facts.schemas()
    schema = checked_schema(schemas, columns, asked, field)
    floats = facts.with_missing(schema, access)
    integers = facts.beyond_floats(schema, floats)

    def settled(each: pa.Field) -> pa.Field:
        if pa.types.is_dictionary(each.type):  # of another file it may have more values
            each = each.with_type(each.type.value_type)
        # A value that is missing in another file would make floats of integers there alone.
        is_whole = becomes_floats(each.type) and (not columns or each.name in columns)
        return each.with_nullable(False) if is_whole and each.name not in floats else each

    scan = Scan(
        root=root,
        schema=with_files(pa.schema(map(settled, schema)), schemas),
        floats=tuple(sorted(floats - integers)),
        integers=tuple(sorted(integers)),
    )
    described = FileTable(files.names, files.num_bytes)
    fragments = FragmentTable.of_files(files.num_bytes, files.paths, files.versions)
    share = int(files.num_bytes.sum(dtype=np.int64)) / sum(file.bytes for file in sample)
    return Source(
        fragments, described, scan.schema, described.digest, scan, max(1, round(share * rows))
    )
