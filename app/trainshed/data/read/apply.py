"""Running a user's transforms and augmentations over one table of rows."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.order.randomness import RowRandom
from trainshed.data.order.spending import key_of
from trainshed.data.read.columns import (
    Array,
    Columns,
    cut_rows,
    join,
    num_rows,
    take_rows,
    writable,
)
from trainshed.data.read.errors import DataError, FunctionError
from trainshed.data.read.ledger import LEDGER
from trainshed.faults import RULES, WorldError, classify
from trainshed.functions import find
from trainshed_api.names import APPLICATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainshed.data.order.function import Function


@dataclass(frozen=True)
class _Loaded:
    call: Callable[..., object]
    takes_rng: bool


@functools.cache
def _load(use: str, field: str) -> _Loaded:
    found = find(use, field)
    # A class is made once a process: what is expensive to build is built in its constructor.
    made = found() if inspect.isclass(found) else found
    assert callable(made)
    return _Loaded(made, "rng" in inspect.signature(made).parameters)


def transform(columns: Columns, functions: Sequence[Function]) -> Columns:
    """Return the columns after all transforms, in their order.

    No function is given no rows: what comes back where none is left has the columns before it.

    Raises:
        DataError: when a function raises, or returns something that is no table.
    """
    for function in functions:
        if not num_rows(columns):
            break
        apply = _by_row if function.kind == "rows" else _by_batch
        with LEDGER.inside(key_of(function.field), num_rows(columns)):
            columns = apply(writable(columns), function)
    return columns


def transform_good(
    columns: Columns, functions: Sequence[Function]
) -> tuple[Columns, dict[int, str]]:
    """Return the rows on which no transform raises, and what it raised on each other one.

    A row is bad when a transform raises on it alone: whatever it came with, it is left out. The
    others are given to the transforms together, as they would have been. No column at all comes
    back where no row does.

    Raises:
        DataError: when a function returns something that is no table, or raises on rows together
            and on none of them alone.
    """
    held = _unchangeable(columns)  # or a function that raises had changed some of it already
    try:
        return transform(held, functions), {}
    except FunctionError as error:
        together = error
    bad = {}
    for row in range(num_rows(held)):
        try:
            transform(cut_rows(held, row, row + 1), functions)
        except FunctionError as error:
            bad[row] = str(error)
    if not bad:
        why = "no row of these raises alone, so none is left out"
        raise FunctionError(f"{together}: {why}", together.trace) from together
    good = np.asarray([row for row in range(num_rows(held)) if row not in bad], dtype=np.int64)
    return (transform(take_rows(held, good), functions) if len(good) else {}), bad


def _unchangeable(columns: Columns) -> Columns:
    """Return views that nobody can write to: who would is given a copy."""
    views = {name: array.view() for name, array in columns.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


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
        DataError: when a function raises, or changes the number of rows.
    """
    for position, function in enumerate(functions):
        takes_rng = _load(function.use, function.field).takes_rng
        extra = {"rng": RowRandom(seed, epoch, rows, position)} if takes_rng else {}
        with LEDGER.inside(key_of(function.field), len(rows)):
            columns = _table(_called(function, writable(columns), **extra), function)
        if num_rows(columns) != len(rows):
            raise DataError(
                f"{function.field}: {function.use} returned {num_rows(columns)} rows for "
                f"{len(rows)}; an augmentation must keep the number of rows"
            )
    return columns


def _by_batch(columns: Columns, function: Function) -> Columns:
    rows = num_rows(columns)
    size = function.batch_size or max(rows, 1)
    return join(
        [
            _table(_called(function, cut_rows(columns, start, start + size)), function)
            for start in range(0, max(rows, 1), size)
        ]
    )


def _by_row(columns: Columns, function: Function) -> Columns:
    rows = []
    for position in range(num_rows(columns)):
        row = _called(function, {name: array[position] for name, array in columns.items()})
        if not isinstance(row, Mapping):
            raise DataError(
                f"{function.field}: {function.use} returned a {type(row).__name__}, "
                "want a dict with the row's columns"
            )
        rows.append({str(name): np.asarray(value) for name, value in row.items()})
    if not rows:
        return columns
    return {name: _stacked([row.get(name) for row in rows], name, function) for name in rows[0]}


def _stacked(values: Sequence[Array | None], name: str, function: Function) -> Array:
    shapes = {None if value is None else value.shape for value in values}
    if len(shapes) > 1:
        raise DataError(
            f"{function.field}: {function.use} returned rows that do not fit together: "
            f"column {name} has the shapes {', '.join(sorted(map(str, shapes)))}"
        )
    return np.stack([value for value in values if value is not None])


def _called(function: Function, given: Mapping[str, object], **extra: object) -> object:
    try:
        return _load(function.use, function.field).call(given, **dict(function.options), **extra)
    except Exception as error:
        message = f"{function.field}: {function.use} raised {type(error).__name__}: {error}"
        line, kind = " ".join(message.split()), classify(error)
        if kind and RULES[kind].cause != APPLICATION:
            raise WorldError(line, kind) from error
        raise FunctionError(line, _users_traceback(error)) from error


def _users_traceback(error: Exception) -> str:
    # The first frame is the call above.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(["Traceback (most recent call last):\n", *lines])


def _table(result: object, function: Function) -> Columns:
    if not isinstance(result, Mapping) or not result:
        got = "an empty dict" if isinstance(result, Mapping) else f"a {type(result).__name__}"
        raise DataError(f"{function.field}: {function.use} returned {got}, want a dict of columns")
    columns = {str(name): np.asarray(array) for name, array in result.items()}
    lengths = {name: len(array) if array.ndim else "no rows" for name, array in columns.items()}
    if len(set(lengths.values())) > 1 or "no rows" in lengths.values():
        raise DataError(
            f"{function.field}: {function.use} returned columns of different length: {lengths}"
        )
    return columns
