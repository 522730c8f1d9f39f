"""Streams of tables: resized, split by rank, and shuffled window by window.

A table here is (columns, positions of its rows in the dataset).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.loader.buffer_pool import LENDER
from trainshed.data.loader.prefetch import Prefetched
from trainshed.data.loader.row_tables import Rows
from trainshed.data.sampler.batch_layout import share
from trainshed.data.sources.column_arrays import cut_rows, join, of_one_shape, say_columns, writable
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.fragment_reader import Table

NOTHING: Table = ({}, np.empty(0, dtype=np.int64))


def recut(tables: Iterator[Table], sizes: Indices) -> Iterator[Table]:
    """Yield the same rows in tables of the given sizes, which may be 0; views where possible."""
    return map(_joined, _cut_up(tables, sizes))


def dealt(
    tables: Iterator[Table], steps: BatchLayout, turns: Sequence[int], most_rows: int
) -> Iterator[Columns]:
    """Yield the rows of each chunk in tables of one rank each; holds one chunk of several steps.

    The ranks are in the order of `BatchLayout.pieces`.

    Args:
        tables: rows in stream order, of several ranks.
        steps: that they are of.
        turns: starts of the delivery chunks in the epoch's order, and the end of the last one.
        most_rows: of a table, if a step has more rows than are held.
    """
    bounds = np.asarray(turns, dtype=np.int64)
    begins, ends = bounds[:-1], bounds[1:]
    # The rows of one step are delivered as they arrive, however large it is.
    if np.array_equal(begins // steps.size, (ends - 1) // steps.size):
        yield from (columns for columns, _ in recut(tables, _sizes(steps, turns, most_rows)))
        return
    for (begin, end), held in zip(pairwise(turns), _cut_up(tables, ends - begins), strict=True):
        rows, here = rows_of(held), np.arange(end - begin, dtype=np.int64)
        if end <= steps.start(begin // steps.size + 1):
            counts = [count for _, count in steps.pieces(begin, end)]
            pieces = (here[start:stop] for start, stop in pairwise(accumulate(counts, initial=0)))
            yield from (rows.take(piece) for piece in pieces if len(piece))
            continue
        for rank in steps.owners(begin // steps.size):
            if len(wanted := here[steps.within(rank, begin, end)]):
                yield rows.take(wanted)


def _sizes(steps: BatchLayout, turns: Sequence[int], most_rows: int) -> Indices:
    """Return the rows of tables of one rank each, of chunks of at most one step."""
    sizes = []
    for begin, end in pairwise(turns):
        for _, rows in steps.pieces(begin, end):
            count = -(-rows // most_rows)
            sizes += [share(rows, count, number) for number in range(count)]
    return np.asarray(sizes, dtype=np.int64)


def shuffled(
    tables: Iterator[Table],
    windows: Indices,
    order: Callable[[int], Indices],
    skip: int,
    chunk_rows: int,
) -> Iterator[Table]:
    """Yield the rows window by window, each window in its own order.

    While one window is yielded the next one is read.

    Args:
        tables: rows in stream order.
        windows: (windows,) rows of each.
        order: number of a window, from 0 -> the order of its rows.
        skip: rows to leave out at the beginning.
        chunk_rows: rows to gather at once.
    """
    # Copied, as windows may be large and would fill Ray's object store.
    owned = ((writable(columns, LENDER.copy), ids) for columns, ids in tables)
    coming = Prefetched(owned, int(windows.max(initial=1)), lambda table: len(table[1]))
    try:
        for number, held in enumerate(_cut_up(coming, windows)):
            rows, places = rows_of(held), order(number)[skip:]
            skip = 0
            for start in range(0, len(places), chunk_rows):
                yield rows.table(places[start : start + chunk_rows])
    finally:
        coming.close()


def woven(tables: Iterable[Table], order: Indices, sizes: Indices, field: str) -> Iterator[Table]:
    """Yield rows of several datasets in order, in tables of the given sizes.

    Args:
        tables: of one dataset after the other; all of them are held.
        order: (rows,) the order of these rows.
        sizes: of the output tables.
        field: of the mix, for errors.

    Raises:
        DataError: if they do not have the same columns.
    """
    held = [table for table in tables if len(table[1])]
    for columns, _ in held:
        first, other = map(say_columns, of_one_shape([held[0][0], columns]))
        if first != other:
            raise DataError(
                f"{field}.read.mix: one dataset has the columns {first}, another "
                f"{other}; expected the same ones of all that are mixed"
            )
    rows, ends = rows_of(held), np.cumsum(sizes)
    for start, stop in zip((ends - sizes).tolist(), ends.tolist(), strict=True):
        yield rows.table(order[start:stop])


def _cut_up(tables: Iterator[Table], sizes: Indices) -> Iterator[list[Table]]:
    """Yield tables with this many rows each, splitting the first and the last."""
    held: list[Table] = []
    have = 0
    for size in sizes.tolist():
        while have < size:
            table = next(tables, None)
            if table is None:
                raise RuntimeError(f"a pass ended {size - have} rows early")
            if len(table[1]):
                held.append(table)
                have += len(table[1])
        first, held = cut_tables(held, size)
        have -= size
        yield first


def cut_tables(tables: Sequence[Table], rows: int) -> tuple[list[Table], list[Table]]:
    """Return the tables up to `rows` rows, and the rest."""
    for number, (columns, ids) in enumerate(tables):
        if rows < len(ids):
            before = (cut_rows(columns, 0, rows), ids[:rows])
            after = (cut_rows(columns, rows, len(ids)), ids[rows:])
            first = [*tables[:number], before] if rows else list(tables[:number])
            return first, [after, *tables[number + 1 :]]
        rows -= len(ids)
    return list(tables), []


def _joined(tables: Sequence[Table]) -> Table:
    if not tables:
        return NOTHING
    if len(tables) == 1:
        return tables[0]
    columns = join([columns for columns, _ in tables], concatenate=LENDER.joined)
    return columns, np.concatenate([ids for _, ids in tables])


def rows_of(tables: Sequence[Table]) -> Rows:
    """Return the rows of tables, one below the other."""
    ids = [ids for _, ids in (NOTHING, *tables)]
    return Rows([columns for columns, _ in tables], np.concatenate(ids))
