"""A dataset's files, as known before any row is read. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.formats import NoOptions
from trainshed_api.where import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from trainshed.data.sampler.strata import Strata
    from trainshed_api.formats import FormatName
    from trainshed_api.schema import SpecModel
    from trainshed_api.where import Condition


Options = TypeVar("Options", bound="SpecModel")


@dataclass(frozen=True, slots=True)
class File:
    """The identity of a file of a dataset, without its date: copies differ in it.

    `path` is relative to the dataset, `groups` a CRC-32 of the rows and sizes of its row groups.
    `rows` is None where only reading tells.
    """

    path: str
    bytes: int
    rows: int | None = None
    groups: int = 0

    def __reduce__(self) -> tuple[type[File], tuple[str, int, int | None, int]]:
        """Pickle compactly: there may be hundreds of thousands."""
        return type(self), (self.path, self.bytes, self.rows, self.groups)


class FileVersion(NamedTuple):
    """The version of a file's content.

    Args:
        bytes: its size.
        version: hash of its tag or date; 0 if its store has none.
        modified: seconds since 1970, in a store; 0 if unknown, or on a disk.
    """

    bytes: int
    version: int
    modified: int = 0


@dataclass(frozen=True)
class Fragment:
    """The unit of reading: row groups of a file, bytes of it, or a few whole files.

    Args:
        path: the file.
        file: its position in the sorted list of files.
        row_groups: of the file, if it has some; empty for all; of Lance the fragment's number.
        rows: number of rows; None if only reading tells.
        num_bytes: decoded size, from the file's footer; else stored size.
        span: bytes [start, stop) of the file, with the rows that begin there; None for all.
        more: further files, if they are so small that several are read at once.
        skip: number of rows before these.
        constants: columns with one value in all rows, which the files need not hold.
        stamps: of each of its files, as listed; empty for tables, whose files never change.
    """

    path: str
    file: int
    row_groups: tuple[int, ...]
    rows: int | None
    num_bytes: int
    span: tuple[int, int] | None = None
    more: tuple[str, ...] = ()
    skip: int = 0
    constants: tuple[tuple[str, object], ...] = ()
    stamps: tuple[FileVersion, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Return all of its files."""
        return (self.path, *self.more)

    def say_row_groups(self) -> str:
        """Return its row groups in a few words."""
        if not self.row_groups:
            return "the file"
        first, last, number = self.row_groups[0], self.row_groups[-1], len(self.row_groups)
        if number == 1:
            return f"row group {first}"
        some = "" if number == last - first + 1 else f"{number} of "
        return f"{some}row groups {first} to {last}"

    @property
    def is_a_row_a_file(self) -> bool:
        """Return whether each of its files is one row."""
        is_whole = self.span is None and not self.row_groups
        return is_whole and self.rows == len(self.paths)


@dataclass(frozen=True)
class Holdout:
    """How two datasets of the same files divide the rows between them.

    Args:
        share: of the rows to hold out.
        held: whether to read the held-out rows, or the others.
        seed: of the random numbers that decide.
        by: column of which each value is on one side.
        stratify: column for an exact share of each value.
        strata: for each value, up to which number rows are held out; None before the column was
            read.
    """

    share: float
    held: bool
    seed: int
    by: str | None = None
    stratify: str | None = None
    strata: Strata | None = None


@dataclass(frozen=True)
class Selection:
    """The rows of the files to read: those that satisfy a condition, and belong to a side."""

    where: Condition | None = None
    holdout: Holdout | None = None

    def __bool__(self) -> bool:
        """Return whether any rows are excluded."""
        return self.where is not None or self.holdout is not None

    @property
    def share(self) -> float:
        """Return the approximate share of rows to read."""
        if self.holdout is None:
            return 1.0
        return self.holdout.share if self.holdout.held else 1 - self.holdout.share

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the columns that decide which rows are read."""
        where = columns_of(self.where) if self.where is not None else ()
        column = (self.holdout.by or self.holdout.stratify) if self.holdout else None
        return tuple(dict.fromkeys([*where, *([column] if column else [])]))


@dataclass(frozen=True)
class Scan:
    """How the files of a dataset are read: sent to each task, and small for that reason.

    Args:
        format: of the files.
        options: from the TrainingRun.
        schema: columns and types of all files, if a file does not have them.
        classes: names of the label folders, in order of their numbers.
        root: folder of the files; for Iceberg the table's metadata.
        selection: the rows to read.
        unasked: columns of the schema that are read only on request.
        skips_bad: whether to skip bad records; else the first ends the run.
        floats: nullable columns of integers and booleans, which are read as floats in all rows, so
            that types do not depend on the batch. Sorted, because the identity of cached rows
            depends on it.
        integers: nullable columns that stay int64, as float64 would round their values; rows
            without a value must be filtered.
        masks: whether to return nullable integers that float64 would round as masked arrays, for
            code that shows values and computes nothing.
        store_options: connection options of the store.
        cache_bytes: of files that each node caches; 0 for none.
        nonce: of this plan, if the store may have no versions.
    """

    format: FormatName = "parquet"
    options: SpecModel = field(default_factory=NoOptions)
    schema: pa.Schema | None = None
    classes: tuple[str, ...] = ()
    root: str = ""
    selection: Selection = Selection()
    unasked: frozenset[str] = frozenset()
    skips_bad: bool = False
    floats: tuple[str, ...] = ()
    # The repr identifies rows cached on disk, also those of earlier releases.
    integers: tuple[str, ...] = field(default=(), repr=False)
    masks: bool = field(default=False, repr=False)
    store_options: StoreOptions = AS_USUAL
    cache_bytes: int = 0
    nonce: str = field(default="", repr=False, compare=False)  # not part of the identity

    def options_as(self, kind: type[Options]) -> Options:
        """Return the options, which are those of the format."""
        assert isinstance(self.options, kind)
        return self.options

    def name_of(self, path: str) -> str:
        """Return a file's name relative to the dataset, or its name if it is the dataset."""
        return path.removeprefix(f"{self.root}/") if path != self.root else path.rpartition("/")[2]
