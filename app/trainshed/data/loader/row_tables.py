"""Rows in memory with random access."""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.loader.buffer_pool import LENDER
from trainshed.data.sources.column_arrays import (
    Array,
    Columns,
    join,
    num_rows,
    of_one_shape,
    of_one_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.fragment_reader import Table

# Rows of this size take longer to copy than Python's overhead.
LARGE_ROW_BYTES = 2**14


class Rows:
    """Concatenated tables, addressed by row.

    Args:
        tables: the parts; copied only if their rows differ in shape or type.
        ids: (rows,) position of each row in the dataset.

    Raises:
        RuntimeError: if the number of rows and positions differs.
        DataError: if numbers of several types have no common type.
    """

    def __init__(self, tables: Sequence[Columns], ids: Indices) -> None:
        filled = [table for table in tables if num_rows(table)] or tables[:1]
        self._tables = of_one_type(of_one_shape(filled))
        # ends has shape (tables,)
        self._ends = np.cumsum([num_rows(table) for table in self._tables])
        self.ids = ids
        if (have := int(self._ends[-1]) if len(self._ends) else 0) != len(ids):
            raise RuntimeError(f"{have} rows came, {len(ids)} were to")

    def __len__(self) -> int:
        return len(self.ids)

    def compact(self) -> Rows:
        """Return the same rows in one table with separate memory."""
        if len(self._tables) > 1:
            return Rows([join(self._tables, concatenate=LENDER.joined)], self.ids)
        copied = [{name: array.copy() for name, array in each.items()} for each in self._tables]
        return Rows(copied, self.ids)

    def table(self, wanted: Indices) -> Table:
        """Return rows by position, in the given order, with their ids."""
        return self.take(wanted), self.ids[wanted]

    def take(self, wanted: Indices) -> Columns:
        """Return rows by position, in the given order; always a copy.

        Args:
            wanted: (n,) positions in [0, rows).

        Raises:
            IndexError: for other positions.
        """
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"of {len(self)} rows {wanted.min()} to {wanted.max()} were wanted")
        if len(self._tables) == 1:
            return {name: LENDER.taken(array, wanted) for name, array in self._tables[0].items()}
        # part has shape (n,) the table that holds each row
        part = np.searchsorted(self._ends, wanted, side="right")
        taken: Columns = {}
        for number in np.unique(part):
            at = np.flatnonzero(part == number)
            begin = self._ends[number - 1] if number else 0
            for name, array in self._tables[number].items():
                if name not in taken:
                    # One table may have wider numbers or longer strings than another.
                    dtype = np.result_type(*{table[name].dtype for table in self._tables})
                    taken[name] = LENDER.empty((len(wanted), *array.shape[1:]), dtype)
                _put(taken[name], at, array, wanted[at] - begin)
        return taken


class ArrivingRows:
    """Rows that can be used while later ones arrive, and have the same shapes and types after.

    Once all are there they are in one table, unless it would change a shape or a type.

    Args:
        tables: the parts, in order.
        ids: (rows,) position of each row in the dataset.
    """

    def __init__(self, tables: Iterator[Columns], ids: Indices) -> None:
        self._coming, self._ids = tables, ids
        self._tables: list[Columns] = []
        self._ends = [0]  # of each table, after that of none
        self._whole: Rows | None = None
        self._error: Exception | None = None
        # A pass that was left may still wait for a table.
        self._lock = threading.Lock()

    def table(self, wanted: Indices) -> Table:
        """Return rows by position, in the given order, with their ids; waits for them.

        Raises:
            RuntimeError: if other than the expected number of rows arrives.
        """
        first, last = (int(wanted.min()), int(wanted.max())) if len(wanted) else (0, 0)
        with self._lock:
            if self._error:
                raise self._error
            try:
                while self._whole is None and not (self._tables and last < self._ends[-1]):
                    self._receive()
            except Exception as error:
                self._error = error  # an iterator that has raised ends, which would hide why
                raise
            if self._whole is not None:
                return self._whole.table(wanted)
            begin, end = bisect_right(self._ends, first) - 1, bisect_right(self._ends, last)
            start, stop = self._ends[begin], self._ends[end]
            rows = Rows(self._tables[begin:end], self._ids[start:stop])
            return rows.table(wanted - start)

    def _receive(self) -> None:
        table = next(self._coming, None)
        if table is not None:
            self._tables.append(table)
            self._ends.append(self._ends[-1] + num_rows(table))
            if self._ends[-1] < len(self._ids):
                return
        self._coming = iter(())
        forms = {
            tuple((name, array.dtype, array.shape[1:]) for name, array in each.items())
            for each in self._tables
            if num_rows(each)
        }
        if len(forms) > 1 and self._ends[-1] == len(self._ids):
            # Copies, as the tables may be views of the object store.
            self._tables = [
                {name: array.copy() for name, array in each.items()} for each in self._tables
            ]
        else:
            self._whole = Rows(self._tables, self._ids).compact()
            self._tables = []


def _put(taken: Array, at: Indices, array: Array, wanted: Indices) -> None:
    """Copy the wanted rows of an array to ascending positions of another one."""
    here = taken[at[0] : at[-1] + 1]
    if len(here) == len(at) and array.dtype == taken.dtype and array.flags.c_contiguous:
        # Avoids a temporary buffer, which NumPy uses with mode "raise".
        np.take(array, wanted, axis=0, out=here, mode="clip")
    elif array.ndim > 1 and array[:1].nbytes >= LARGE_ROW_BYTES:
        for place, row in zip(at.tolist(), wanted.tolist(), strict=True):
            taken[place] = array[row]
    else:
        taken[at] = array[wanted]
