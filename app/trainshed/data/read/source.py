"""Reading parts of a dataset: the same function in a Ray Data task and in a torch DataLoader."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.order.permutation import Indices, Piece
from trainshed.data.read.apply import augment, transform
from trainshed.data.read.columns import Columns, cut_rows, join, num_rows
from trainshed.data.read.errors import DataError
from trainshed.data.read.parquet import read_fragment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainshed.data.order.files import Fragment
    from trainshed.data.order.function import Function
    from trainshed.data.order.plan import DatasetPlan


@dataclass(frozen=True)
class Reading:
    """How rows are read: what each task is told, and small for that reason.

    Args:
        field: the dataset's field, for errors.
        columns: to read; empty for all.
        transforms: in their order.
        augments: in their order.
        chunk_rows: most rows that are decoded and transformed at once.
        seed: the run's seed.
        epoch: 0-based; None for rows without augmentation.
    """

    field: str
    columns: tuple[str, ...]
    transforms: tuple[Function, ...]
    augments: tuple[Function, ...]
    chunk_rows: int
    seed: int = 0
    epoch: int | None = None


@dataclass(frozen=True)
class Part:
    """Rows [start, stop) of a fragment, whose first row has position `first` in the dataset."""

    fragment: Fragment
    first: int
    start: int
    stop: int


Table = tuple[Columns, Indices]


def reading(plan: DatasetPlan, seed: int = 0, epoch: int | None = None) -> Reading:
    """Return how the rows of a dataset are read; augmented where an epoch is given."""
    rows = plan.block_rows
    return Reading(plan.field, plan.columns, plan.transforms, plan.augments, rows, seed, epoch)


def first_rows(counts: Indices) -> Indices:
    """Return the position in the dataset of each fragment's first row, shape (fragments,)."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def piece_ids(pieces: Sequence[Piece], counts: Indices) -> Indices:
    """Return the positions in the dataset of the pieces' rows, shape (rows,)."""
    firsts = first_rows(counts)
    ids = [
        np.arange(piece.start, piece.stop, dtype=np.int64) + firsts[piece.fragment]
        for piece in pieces
    ]
    return np.concatenate(ids) if ids else np.empty(0, dtype=np.int64)


def parts(plan: DatasetPlan, pieces: Iterable[Piece]) -> list[Part]:
    """Return the pieces with all that is needed to read them."""
    assert plan.source
    fragments, firsts = plan.source.fragments, first_rows(plan.counts).tolist()
    return [
        Part(fragments[piece.fragment], firsts[piece.fragment], piece.start, piece.stop)
        for piece in pieces
    ]


def read_whole(how: Reading, fragment: Fragment) -> Columns:
    """Return a fragment's rows after the transforms, which may change their number."""
    chunks = read_fragment(fragment, how.columns, how.chunk_rows)
    return join([transform(chunk, how.transforms) for chunk in chunks])


def read_parts(how: Reading, wanted: Iterable[Part]) -> Iterator[Table]:
    """Yield (columns, positions in the dataset) of the parts' rows after transforms, in order.

    Neighbouring parts of a fragment are read at one go, so they must not go backwards in it.

    Raises:
        DataError: when a transform changes the number of rows.
    """
    for fragment, group in groupby(wanted, key=lambda part: part.fragment):
        left = list(group)
        begin = 0
        for chunk in read_fragment(fragment, how.columns, how.chunk_rows):
            end = begin + num_rows(chunk)
            if left[0].start < end:
                columns = _transformed(how, chunk, fragment)
                while left and left[0].start < end:
                    part = left[0]
                    start, stop = max(begin, part.start), min(end, part.stop)
                    ids = np.arange(start, stop, dtype=np.int64) + part.first
                    yield augmented(how, cut_rows(columns, start - begin, stop - begin), ids), ids
                    if part.stop > end:
                        break
                    left.pop(0)
            begin = end
            if not left:
                break


def augmented(how: Reading, columns: Columns, ids: Indices) -> Columns:
    """Return the columns augmented for the reading's epoch.

    Args:
        how: of the dataset.
        columns: the table.
        ids: (rows,) positions in the dataset.
    """
    if how.epoch is None or not how.augments or not len(ids):
        return columns
    return augment(columns, how.augments, ids, how.seed, how.epoch)


def _transformed(how: Reading, chunk: Columns, fragment: Fragment) -> Columns:
    columns = transform(chunk, how.transforms)
    if num_rows(columns) != num_rows(chunk):
        raise DataError(
            f"{how.field}.transforms: {num_rows(columns)} rows came back for {num_rows(chunk)} of "
            f"{fragment.path}; without a cache the number of rows must stay: set cache: objects"
        )
    return columns
