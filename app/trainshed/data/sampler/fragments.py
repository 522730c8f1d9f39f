"""What is known of a dataset's files before a row of them is read. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.formats import NoOptions
from trainshed_api.where import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from trainshed.data.sampler.strata import Strata
    from trainshed_api.formats import FormatName
    from trainshed_api.schema import SpecModel
    from trainshed_api.where import Condition


@dataclass(frozen=True, slots=True)
class File:
    """What tells a file of a dataset from another one; not when it was written: copies differ.

    `path` is below the dataset's, `groups` a CRC-32 of the rows and sizes of its row groups. Only
    reading tells the rows of some files.
    """

    path: str
    bytes: int
    rows: int | None = None
    groups: int = 0

    def __reduce__(self) -> tuple[type[File], tuple[str, int, int | None, int]]:
        """Travel to other processes, by the hundred thousand."""
        return type(self), (self.path, self.bytes, self.rows, self.groups)


class FileVersion(NamedTuple):
    """What tells a content of a file from one that is written there later.

    Args:
        bytes: its size.
        version: of its tag or date; 0 where its store tells none.
        modified: seconds since 1970, in a store; 0 where that is unknown, or on a disk.
    """

    bytes: int
    version: int
    modified: int = 0


@dataclass(frozen=True)
class Fragment:
    """What is read on its own: row groups of a file, bytes of it, or a few whole files.

    Args:
        path: the file.
        file: its position in the sorted list of files.
        row_groups: which of its row groups, where it has some; of Lance the fragment's number.
        rows: how many rows they hold; None where only reading them tells.
        num_bytes: their size when decoded, by the file's footer; else as they are stored.
        span: bytes [start, stop) of the file, whose rows are those that begin there; None for all.
        more: further files, where these are so small that several are read at once.
        skip: rows that come before these.
        constants: columns of which all its rows have one value, which the files need not hold.
        stamps: of each of its files, as listed; none of a table's, which nobody overwrites.
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
        """Return which of its file's row groups it has, in a few words for any number of them."""
        first, last, number = self.row_groups[0], self.row_groups[-1], len(self.row_groups)
        if number == 1:
            return f"row group {first}"
        some = "" if number == last - first + 1 else f"{number} of "
        return f"{some}row groups {first} to {last}"

    @property
    def is_a_row_a_file(self) -> bool:
        """Say whether each of its files is a row."""
        is_whole = self.span is None and not self.row_groups
        return is_whole and self.rows == len(self.paths)


@dataclass(frozen=True)
class Holdout:
    """Which rows two datasets of the same files share between them.

    Args:
        share: of the rows, what is held out.
        held: whether those are meant, and not the others.
        seed: of the numbers that decide it.
        stratify: column of whose values each has the share held out, to the row.
        strata: up to which number, of each of them; None until that column was read.
    """

    share: float
    held: bool
    seed: int
    stratify: str | None = None
    strata: Strata | None = None


@dataclass(frozen=True)
class Selection:
    """Which rows of the files are read: those that meet a condition, and are of a part."""

    where: Condition | None = None
    holdout: Holdout | None = None

    def __bool__(self) -> bool:
        """Say whether any are left out."""
        return self.where is not None or self.holdout is not None

    @property
    def share(self) -> float:
        """Return about which share of the rows is read, as far as it is known."""
        if self.holdout is None:
            return 1.0
        return self.holdout.share if self.holdout.held else 1 - self.holdout.share

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the columns that tell which rows are read."""
        where = columns_of(self.where) if self.where is not None else ()
        stratify = self.holdout.stratify if self.holdout else None
        return tuple(dict.fromkeys([*where, *([stratify] if stratify else [])]))


@dataclass(frozen=True)
class Scan:
    """How the files of a dataset are read: what each task is told, and small for that reason.

    Args:
        format: of the files.
        options: what the TrainingRun says of them.
        schema: columns and types of all files, where these do not have their own.
        classes: names of the folders that number the labels, in their order.
        root: where the files lie; of Iceberg the table's metadata.
        selection: which of their rows are read.
        unasked: columns of the schema that are given only to who names them.
        skips_bad: whether records that cannot be used are left out; else the first ends the run.
        floats: columns of integers and booleans that are read as floats in all rows, as some are
            missing: a batch's type would hang on which rows are in it. By their names, as what is
            kept on disk hangs on them, and a set has no order.
        integers: columns of which some values are missing that are int64 in all rows all the same,
            as float64 would round others; rows without one have to be left out.
        masks: whether rows without one are given, too, and integers that float64 would round are
            masked arrays: for who looks at values and computes nothing of them.
        reach: how their store is reached.
        cache_bytes: of files that each node keeps; 0 for none.
        nonce: of this plan, where the files' store may tell no versions.
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
    # Rows that are kept on disk are known by the repr: those of earlier releases are read on.
    integers: tuple[str, ...] = field(default=(), repr=False)
    masks: bool = field(default=False, repr=False)
    reach: StoreOptions = AS_USUAL
    cache_bytes: int = 0
    nonce: str = field(default="", repr=False, compare=False)  # of no reading's identity

    def name_of(self, path: str) -> str:
        """Return a file's name below the dataset's folder, or its own where that is the dataset."""
        return path.removeprefix(f"{self.root}/") if path != self.root else path.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """The files of a dataset, by their footers or their names and sizes.

    Args:
        fragments: in the order of the files' names.
        files: in the order of their names.
        schema: of the first file; the others have the same needed columns.
        fingerprint: sha256 over names, sizes and row counts.
        scan: how they are read.
        likely_rows: about how many rows are read, where nobody counted them.
    """

    fragments: tuple[Fragment, ...]
    files: tuple[File, ...]
    schema: pa.Schema | None
    fingerprint: str
    scan: Scan = field(default_factory=Scan)
    likely_rows: int = 0

    @cached_property
    def num_bytes(self) -> int:
        """Return the size of all fragments, decoded or stored as each of them has it."""
        return sum(fragment.num_bytes for fragment in self.fragments)

    @cached_property
    def rows(self) -> int | None:
        """Return the rows of all fragments; None where only reading tells."""
        if self.scan.selection:
            return None
        counts = [fragment.rows for fragment in self.fragments if fragment.rows is not None]
        return sum(counts) if len(counts) == len(self.fragments) else None

    @property
    def about_rows(self) -> int:
        """Return the rows of all fragments, or about how many where only reading tells."""
        return self.likely_rows if self.rows is None else self.rows

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of all that is known of the files, as checkpoints have it."""
        lines = (f"{each.path} {each.bytes} {each.rows} {each.groups}\n" for each in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()
