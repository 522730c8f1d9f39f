"""Predictions in a folder or bucket: one file for each fragment, written by several workers.

A file gets its name when it is complete. A killed prediction continues with the files that exist.
"""

from __future__ import annotations

import contextlib
import functools
import io
from concurrent.futures import ThreadPoolExecutor
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
# Schemas that are read at the same time.
SCHEMAS_AT_ONCE = 16


class PartFolder:
    """The output of a prediction; travels to workers.

    Args:
        folder: of which `.jsonl` or `.parquet` is the ending.
        identity: of model and rows; a folder has files of one identity.
        count: files that it gets.
        schema: of the rows' files, if they have one.

    Raises:
        SpecError: if the folder has another ending.
    """

    def __init__(self, folder: Folder, identity: str, count: int, schema: pa.Schema | None) -> None:
        self._folder = folder
        self._identity = identity.encode()
        self._count = count
        self._format = part_format(folder.name, schema)

    def begin(self) -> None:
        """Mark the folder as the output of this prediction.

        Raises:
            SpecError: if it is a file, or has other files, also those of another or a complete
                prediction.
        """
        if self._folder.path and self._folder.path.is_file():
            raise self._refusal("a new folder; this is a file. Choose another name")
        names = READS.read(self._folder.names)
        # Names that begin with a dot are of files that another process is writing.
        if all(name.startswith(".") for name in names):
            with contextlib.suppress(FileExistsError):  # of a command that began at the same time
                self._folder.create(IDENTITY, self._identity)
        elif SUCCESS in names:
            raise self._refusal("a new folder; this one has all predictions. Choose another name")
        elif IDENTITY not in names:
            raise self._refusal("a new folder; this one has other files. Choose another name")
        self._check_identity()

    def _check_identity(self) -> None:
        if READS.read(lambda: self._folder.read(IDENTITY)) != self._identity:
            raise self._refusal(
                "a new folder; this one has predictions of another model, other rows or options. "
                "Choose another name"
            )

    def _refusal(self, expected: str) -> SpecError:
        return SpecError([Problem("--output", str(self._folder), expected)])

    def missing(self) -> list[int]:
        """Return the numbers of the files that are not written."""
        names = set(READS.read(self._folder.names))
        numbers = range(self._count)
        return [number for number in numbers if names.isdisjoint(self._names(number))]

    def write(self, number: int, tables: Iterable[Columns]) -> int:
        """Write a file, unless it exists, and return the rows that were written.

        Without rows it gets a name that readers skip.
        """
        if any(
            READS.read(functools.partial(self._folder.stat, name)) for name in self._names(number)
        ):
            return 0
        with scratch.made_aside("a part of the predictions") as aside:
            rows = self._format.write(tables, aside / "part")
            content = (aside / "part").read_bytes() if rows else b""
        filled, empty = self._names(number)
        name = filled if rows else empty
        READS.read(lambda: self._folder.write(name, content))
        return rows

    def schemas(self) -> dict[str, pa.Schema]:
        """Return the types of each Parquet file; none of JSON lines."""
        if isinstance(self._format, JsonLines):
            return {}
        names = READS.read(self._folder.names)
        files = [name for name in names if not name.startswith(("_", "."))]
        with ThreadPoolExecutor(SCHEMAS_AT_ONCE) as pool:
            return dict(zip(files, pool.map(self._schema, files), strict=True))

    def cast(self, name: str, schema: pa.Schema) -> None:
        """Replace a Parquet file by one with other types."""
        table = pq.read_table(io.BytesIO(READS.read(lambda: self._folder.read(name))))
        content = io.BytesIO()
        pq.write_table(table.cast(schema), content, compression="zstd")
        READS.read(lambda: self._folder.write(name, content.getvalue()))

    def check_complete(self) -> None:
        """Refuse a folder in which this process does not see all files, or that is of another.

        Raises:
            SpecError: naming the folder.
        """
        if missing := self.missing():
            raise self._refusal(
                f"a folder that all nodes share; {len(missing)} of {self._count} files are on "
                "others. Choose an address, such as s3://bucket/predictions.parquet"
            )
        self._check_identity()

    def finish(self) -> None:
        """Mark the predictions as complete.

        Raises:
            SpecError: as `check_complete` raises it.
        """
        self.check_complete()
        READS.read(lambda: self._folder.write(SUCCESS, b""))

    def _schema(self, name: str) -> pa.Schema:
        system, path = as_ray_has_it(self._folder)
        return READS.read(lambda: pq.read_schema(f"{path}/{name}", filesystem=system))

    def _names(self, number: int) -> tuple[str, str]:
        """Return the names that a file gets with rows and without."""
        ending = "jsonl" if isinstance(self._format, JsonLines) else "parquet"
        return f"part-{number:06}.{ending}", f"_empty-{number:06}"


def stale_files(schemas: dict[str, pa.Schema]) -> tuple[Sequence[str], pa.Schema | None]:
    """Return the files whose types are not those that hold the values of all, and these types."""
    if not schemas:
        return [], None
    schema = common_schema(list(schemas.values()))
    return [name for name, found in schemas.items() if not found.equals(schema)], schema
