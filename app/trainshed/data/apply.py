"""Running a user's transforms and augmentations over one table of rows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from trainshed.data.columns import Array, Columns, cut_rows, join, num_rows
from trainshed.data.parquet import DataError
from trainshed.data.randomness import RowRandom
from trainshed.functions import find

if TYPE_CHECKING:
    from numpy.typing import NDArray

BatchFunction = Callable[..., Mapping[str, Array]]


@dataclass(frozen=True)
class Function:
    """A function that a TrainingRun names, and how to call it.

    Args:
        use: `module:function`.
        field: the spec's field that names it, for errors.
        kind: `batches` gets columns, `rows` one row as a dict.
        options: keyword arguments, as sorted pairs.
        batch_size: rows a call; None for all rows of the fragment.
    """

    use: str
    field: str
    kind: Literal["batches", "rows"] = "batches"
    options: tuple[tuple[str, object], ...] = ()
    batch_size: int | None = None

    @property
    def name(self) -> str:
        """Return the bare name of the function."""
        return self.use.partition(":")[2]


@functools.cache
def _load(use: str, field: str) -> Callable[..., object]:
    found = find(use, field)
    # A class is made once a process: what is expensive to build is built in its constructor.
    return cast("Callable[..., object]", found()) if inspect.isclass(found) else found


def transform(columns: Columns, functions: Sequence[Function]) -> Columns:
    """Return the columns after all transforms, in their order.

    Raises:
        DataError: when a function returns something that is no table.
    """
    for function in functions:
        call = functools.partial(_load(function.use, function.field), **dict(function.options))
        if function.kind == "rows":
            columns = _by_row(columns, call, function)
        else:
            columns = _by_batch(columns, call, function)
    return columns


def augment(
    columns: Columns, functions: Sequence[Function], rows: NDArray[np.int64], seed: int, epoch: int
) -> Columns:
    """Return the columns after all augmentations of an epoch.

    Args:
        columns: the table.
        functions: each may take `rng`, a RowRandom.
        rows: (rows,) positions in the dataset, which is what randomness hangs on.
        seed: the run's seed.
        epoch: 0-based.

    Raises:
        DataError: when a function changes the number of rows.
    """
    for position, function in enumerate(functions):
        loaded = _load(function.use, function.field)
        options = dict(function.options)
        if "rng" in inspect.signature(loaded).parameters:
            options["rng"] = RowRandom(seed, epoch, rows, position)
        columns = _checked(cast("BatchFunction", loaded)(dict(columns), **options), function)
        if num_rows(columns) != len(rows):
            raise DataError(
                f"{function.field}: {function.use} returned {num_rows(columns)} rows for "
                f"{len(rows)}; an augmentation must keep the number of rows"
            )
    return columns


def _by_batch(columns: Columns, call: Callable[..., object], function: Function) -> Columns:
    rows = num_rows(columns)
    size = function.batch_size or max(rows, 1)
    parts = [
        _checked(call(cut_rows(columns, start, start + size)), function)
        for start in range(0, max(rows, 1), size)
    ]
    return join(parts)


def _by_row(columns: Columns, call: Callable[..., object], function: Function) -> Columns:
    rows = []
    for position in range(num_rows(columns)):
        row = call({name: array[position] for name, array in columns.items()})
        if not isinstance(row, Mapping):
            raise DataError(
                f"{function.field}: {function.use} returned a {type(row).__name__}, "
                "want a dict with the row's columns"
            )
        rows.append(row)
    if not rows:
        return columns
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def _checked(result: object, function: Function) -> Columns:
    if not isinstance(result, Mapping):
        raise DataError(
            f"{function.field}: {function.use} returned a {type(result).__name__}, "
            "want a dict of columns"
        )
    columns = {str(name): np.asarray(array) for name, array in result.items()}
    lengths = {name: len(array) if array.ndim else 0 for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"{function.field}: {function.use} returned columns of different length: {lengths}"
        )
    return columns
