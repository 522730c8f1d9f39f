"""Predictions in a folder or bucket: one file for each fragment, written by several workers.

A file gets its name when it is complete. A killed prediction continues with the files that exist.
"""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from trainshed.predict.part_files import JsonLines, common_schema, part_format
from trainshed.retry import READS
from trainshed.storage import scratch
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from trainshed.data.sources.column_arrays import Columns
    from trainshed.storage.folder import Folder

# Readers of data skip names that begin with an underscore.
IDENTITY, SUCCESS = "_identity", "_SUCCESS"


class PartFolder:
    """The output of a prediction; travels to workers.

    Args:
        folder: of which `.jsonl` or `.parquet` is the ending.
        count: files that it gets.
        schema: of the rows' files, if they have one.

    Raises:
        SpecError: if the folder has another ending.
    """

    def __init__(self, folder: Folder, count: int, schema: pa.Schema | None) -> None:
        self._folder = folder
        self._count = count
        self._format = part_format(folder.name, schema)

    def begin(self, identity: str) -> None:
        """Mark the folder as the output of a model and its rows.

        Raises:
            SpecError: if it has other files, also those of another or a complete prediction.
        """
        names = READS.read(self._folder.names)
        if not names:
            READS.read(lambda: self._folder.write(IDENTITY, identity.encode()))
            return
        expected = ""
        if SUCCESS in names:
            expected = "a new folder; this one has all predictions"
        elif IDENTITY not in names:
            expected = "a new folder; this one has other files"
        elif READS.read(lambda: self._folder.read(IDENTITY)) != identity.encode():
            expected = (
                "a new folder; this one has predictions of another model, other rows or options"
            )
        if expected:
            raise SpecError(
                [Problem("--output", str(self._folder), f"{expected}. Choose another name")]
            )

    def missing(self) -> list[int]:
        """Return the numbers of the files that are not written."""
        names = set(READS.read(self._folder.names))
        numbers = range(self._count)
        return [n for n in numbers if names.isdisjoint((self._name(n), _empty(n)))]

    def write(self, number: int, tables: Iterable[Columns]) -> int:
        """Write a file and return its rows; without rows it gets a name that readers skip."""
        with scratch.made_aside("a part of the predictions") as aside:
            rows = self._format.write(tables, aside / "part")
            content = (aside / "part").read_bytes() if rows else b""
        name = self._name(number) if rows else _empty(number)
        READS.read(lambda: self._folder.write(name, content))
        return rows

    def schemas(self) -> dict[str, pa.Schema]:
        """Return the types of each Parquet file; none of JSON lines."""
        if isinstance(self._format, JsonLines):
            return {}
        names = READS.read(self._folder.names)
        files = [name for name in names if not name.startswith(("_", "."))]
        return {name: READS.read(functools.partial(self._schema, name)) for name in files}

    def cast(self, name: str, schema: pa.Schema) -> None:
        """Replace a Parquet file by one with other types."""
        table = pq.read_table(io.BytesIO(READS.read(lambda: self._folder.read(name))))
        content = io.BytesIO()
        pq.write_table(table.cast(schema), content, compression="zstd")
        READS.read(lambda: self._folder.write(name, content.getvalue()))

    def finish(self) -> None:
        """Mark the predictions as complete.

        Raises:
            SpecError: if this process does not see all files.
        """
        if missing := self.missing():
            expected = (
                f"a folder that all nodes share; {len(missing)} of {self._count} files are on "
                "others. Choose an address, such as s3://bucket/predictions.parquet"
            )
            raise SpecError([Problem("--output", str(self._folder), expected)])
        READS.read(lambda: self._folder.write(SUCCESS, b""))

    def _schema(self, name: str) -> pa.Schema:
        system, path = as_ray_has_it(self._folder)
        return pq.read_schema(f"{path}/{name}", filesystem=system)

    def _name(self, number: int) -> str:
        ending = "jsonl" if isinstance(self._format, JsonLines) else "parquet"
        return f"part-{number:06}.{ending}"


def stale_files(schemas: dict[str, pa.Schema]) -> tuple[Sequence[str], pa.Schema | None]:
    """Return the files whose types are not those that hold the values of all, and these types."""
    if not schemas:
        return [], None
    schema = common_schema(list(schemas.values()))
    return [name for name, found in schemas.items() if not found.equals(schema)], schema


def _empty(number: int) -> str:
    return f"_empty-{number:06}"
