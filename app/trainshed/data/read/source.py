"""Reading parts of a dataset: the same function in a Ray Data task and in a torch DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.order.permutation import Indices, Piece
from trainshed.data.read.apply import augment, transform
from trainshed.data.read.columns import Columns, cut_rows, join, num_rows, take_rows
from trainshed.data.read.errors import DataError
from trainshed.data.read.parquet import read_fragment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    """Rows [start, stop) of a fragment, whose first row has position `first` in the dataset.

    Its first row comes at `place` among all that are read.
    """

    fragment: Fragment
    first: int
    start: int
    stop: int
    place: int


Table = tuple[Columns, Indices]
# Which of the rows [start, stop) of those that are read are wanted, counted from `start`.
Choice = Callable[[int, int], slice | Indices]


def everything(start: int, stop: int) -> slice:  # noqa: ARG001 - a Choice
    """Choose all rows."""
    return slice(None)


def reading(plan: DatasetPlan, seed: int = 0, epoch: int | None = None) -> Reading:
    """Return how the rows of a dataset are read; augmented where an epoch is given."""
    rows = plan.block_rows
    return Reading(plan.field, plan.columns, plan.transforms, plan.augments, rows, seed, epoch)


def parts(plan: DatasetPlan, pieces: Iterable[Piece], place: int = 0) -> list[Part]:
    """Return the pieces with all that is needed to read them, the first one's rows at a place."""
    assert plan.source
    fragments, firsts = plan.source.fragments, plan.firsts
    found = []
    for piece in pieces:
        number = piece.fragment
        found.append(Part(fragments[number], int(firsts[number]), piece.start, piece.stop, place))
        place += piece.rows
    return found


def read_whole(how: Reading, fragment: Fragment) -> Columns:
    """Return a fragment's rows after the transforms, which may change their number."""
    chunks = read_fragment(fragment, how.columns, how.chunk_rows)
    return join([transform(chunk, how.transforms) for chunk in chunks])


def read_parts(
    how: Reading, wanted: Iterable[Part], choice: Choice = everything
) -> Iterator[Table]:
    """Yield (columns, positions in the dataset) of the parts' chosen rows after transforms.

    A part is of another fragment than the one before it.

    Raises:
        DataError: when a transform changes the number of rows.
    """
    for part in wanted:
        begin = 0
        for chunk in read_fragment(part.fragment, how.columns, how.chunk_rows):
            start, end = max(begin, part.start), min(begin + num_rows(chunk), part.stop)
            if start < end:
                moved = part.place - part.start
                chosen = choice(start + moved, end + moved)
                ids = np.arange(start + part.first, end + part.first, dtype=np.int64)[chosen]
                if len(ids):
                    rows = take_rows(cut_rows(chunk, start - begin, end - begin), chosen)
                    columns = _transformed(how, rows, part.fragment)
                    yield augmented(how, columns, ids), ids
            begin += num_rows(chunk)
            if begin >= part.stop:
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
