"""Runs a user's transforms and augmentations over one table of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.stage_time import key_of
from trainshed.data.sources.casts import Misfit, common_type, exactly_as, find_misfit
from trainshed.data.sources.column_arrays import (
    Array,
    Columns,
    as_array,
    as_column,
    as_objects,
    cut_rows,
    join,
    mixed_kinds,
    num_rows,
    take_rows,
    writable,
)
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.data.sources.grouping import groups
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.data.sources.user_functions import (
    as_mask,
    as_table,
    call,
    call_with_columns,
    joined,
    random_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from trainshed.data.sampler.function import Function


# A row that has no single shape.
_ROWS = (np.ndarray, list, tuple)


def transform(columns: Columns, functions: Sequence[Function]) -> Columns:
    """Return the columns after all transforms, in order.

    No function is called without rows: an empty result keeps the columns before it.

    Raises:
        DataError: if a function raises, or returns anything but what its kind requires.
    """
    for function in functions:
        if not num_rows(columns):
            break
        with STAGE_TIMER.inside(key_of(function.field), num_rows(columns)):
            columns = _APPLIED[function.kind](columns, function)
    return columns


def transform_good(
    columns: Columns, functions: Sequence[Function], leave_out: Callable[[int, str], object]
) -> Columns:
    """Return the rows on which no transform raises.

    A row is bad if a transform raises on it alone; it is left out. The other rows are passed to
    the transforms together, as they would have been. Without good rows the result has no
    column.

    Args:
        columns: the table.
        functions: the transforms, in order.
        leave_out: called with each bad row, when it is found, and the exception.

    Raises:
        DataError: if a function cannot be loaded, returns something that is no table, or raises
            on rows together but on none of them alone.
    """
    if not functions:
        return columns
    held = _unchangeable(columns)  # or a raising function may have changed some of it
    try:
        return transform(_lent(held), functions)
    except FunctionError as error:
        together = error
    good = []
    for row in range(num_rows(held)):
        try:
            transform(_lent(cut_rows(held, row, row + 1)), functions)
        except FunctionError as error:
            leave_out(row, str(error))
        else:
            good.append(row)
    if len(good) == num_rows(held):
        why = "no row of these raises alone, so none is left out"
        raise FunctionError(f"{together}: {why}", together.trace) from together
    if not good:
        return {}
    rows = take_rows(held, np.asarray(good, dtype=np.int64))
    return transform(_lent(rows), functions)


def settled(columns: Columns, function: Function) -> Columns:
    """Return a function's result with the fixed types of its columns.

    Raises:
        DataError: if a value would change, naming column and value.
    """
    types = _dtypes(function.types)
    others = {
        name for name, array in columns.items() if types.get(name, array.dtype) != array.dtype
    }
    if not others:
        return columns
    return {
        name: _as_type(name, array, types[name].name, function) if name in others else array
        for name, array in columns.items()
    }


@functools.cache
def _dtypes(types: tuple[tuple[str, str], ...]) -> Mapping[str, np.dtype[np.generic]]:
    return {name: np.dtype(kind) for name, kind in types}


def _as_type(name: str, array: Array, wanted: str, function: Function) -> Array:
    returned = f"{function.field}: {function.use} returned {array.dtype} for column {name}"
    if array.dtype.kind not in "biufc":
        values: list[object] = array.tolist()
        is_nothing = all(value is None for value in values)
        if is_nothing or any(isinstance(value, _ROWS) for value in values):
            return array  # no rows, or an array per row: batches decide later
        odd = next((value for value in values if not _fits(value, wanted)), values[0])
        if odd is None:
            raise _missing(name, "None", wanted, function)
        raise DataError(
            f"{returned}, where the first rows of the files have {wanted}: got {odd!r:.80}; "
            f"expected {wanted}. Return {wanted} from each call."
        )
    made = exactly_as(array, wanted)
    if isinstance(made, Misfit):
        if made.value == "nan":
            raise _missing(name, made.value, wanted, function)
        both = common_type([array, np.empty(0, wanted)])
        remedy = made.remedy if both in (wanted, None) else f"Return {both} from each call."
        raise DataError(
            f"{returned}, where the first rows of the files have {wanted}: got {made.value}; "
            f"expected {made.expected}. {remedy}"
        )
    return made


def _fits(value: object, wanted: str) -> bool:
    array = np.asarray([value])
    return array.dtype.kind in "biufc" and find_misfit(array, wanted, exactly=True) is None


def _missing(name: str, value: str, wanted: str, function: Function) -> DataError:
    """Return the error for a missing value, which may have changed the type of its table."""
    return DataError(
        f"{function.field}: {function.use} returned a row without a value for column {name}, where "
        f"the first rows of the files have {wanted}: got {value}; expected a number in each row. "
        'Fill it in, as fillna does, or return float64 from each call, as astype("float64") does.'
    )


def _lent(held: Columns) -> Columns:
    """Return columns that functions cannot change: lists in them are copied, too."""
    return {name: array if _is_fixed(array) else deepcopy(array) for name, array in held.items()}


def _is_fixed(array: Array) -> bool:
    """Return whether the values of a read-only view are immutable: numbers, or texts."""
    if array.dtype != object:
        return True
    values: Iterable[object] = array.flat
    return all(value is None or isinstance(value, (str, bytes)) for value in values)


def _unchangeable(columns: Columns) -> Columns:
    """Return read-only views; a function that writes gets a copy."""
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
        rows: (rows,) positions in the dataset, which determine random numbers.
        seed: the run's seed.
        epoch: 0-based.

    Raises:
        DataError: if a function raises, or changes the number of rows.
    """
    for position, function in enumerate(functions):
        extra = random_for(function, seed, epoch, rows, position)
        with STAGE_TIMER.inside(key_of(function.field), len(rows)):
            made = as_table(call_with_columns(function, writable(columns), **extra), function)
            columns = settled(made, function)
        if num_rows(columns) != len(rows):
            raise DataError(
                f"{function.field}: {function.use} returned {num_rows(columns)} rows for "
                f"{len(rows)}; an augmentation must keep the number of rows"
            )
    return columns


def _by_batch(columns: Columns, function: Function) -> Columns:
    batches = _batches(writable(columns), function)
    return joined([_made(function, batch) for batch in batches], function)


def _by_filter(columns: Columns, function: Function) -> Columns:
    # A filter must not change the rows that it gets.
    batches = _batches(_unchangeable(columns), function)
    masks = [
        as_mask(call_with_columns(function, batch), num_rows(batch), function) for batch in batches
    ]
    kept = np.concatenate(masks)
    return columns if kept.all() else take_rows(columns, np.flatnonzero(kept))


def _by_group(columns: Columns, function: Function) -> Columns:
    order, ends = groups(columns, function)
    columns = take_rows(columns, order)
    tables = [
        _made(function, cut_rows(columns, start, stop))
        for start, stop in pairwise([0, *ends.tolist()])
    ]
    return joined(tables, function)


def _by_row(columns: Columns, function: Function) -> Columns:
    columns, rows = writable(columns), []
    for position in range(num_rows(columns)):
        row = call(function, {name: array[position] for name, array in columns.items()})
        if not isinstance(row, Mapping):
            raise DataError(
                f"{function.field}: {function.use} returned a {type(row).__name__}; "
                "expected a dict with the row's columns"
            )
        rows.append({str(name): _value(str(name), each, function) for name, each in row.items()})
        if rows[-1].keys() != rows[0].keys():
            odd = min(rows[-1].keys() ^ rows[0].keys())
            raise DataError(
                f"{function.field}: {function.use} returned rows that do not fit together: "
                f"column {odd} is not in all of them"
            )
    made = {name: _stacked([row[name] for row in rows], name, function) for name in rows[0]}
    return settled(made, function)


def _value(name: str, value: object, function: Function) -> Array:
    try:
        return as_array(value)
    except ValueError as error:
        said = f"{function.field}: {function.use} returned column {name}: {error}"
        raise DataError(said) from error


_APPLIED: dict[str, Callable[[Columns, Function], Columns]] = {
    "batches": _by_batch,
    "rows": _by_row,
    "filter": _by_filter,
    "groups": _by_group,
}


def _made(function: Function, given: Columns) -> Columns:
    return settled(as_table(call_with_columns(function, given), function), function)


def _batches(columns: Columns, function: Function) -> Iterator[Columns]:
    rows = num_rows(columns)
    size = function.batch_size or rows
    return (cut_rows(columns, start, start + size) for start in range(0, rows, size))


def _stacked(values: Sequence[Array], name: str, function: Function) -> Array:
    shapes = {value.shape for value in values}
    odd = mixed_kinds(values)
    if len({value.ndim for value in values}) > 1:
        odd = f"the shapes {', '.join(sorted(map(str, shapes)))}"
    if odd:
        raise DataError(
            f"{function.field}: {function.use} returned rows that do not fit together: "
            f"column {name} has {odd}"
        )
    if len(shapes) > 1:
        return as_objects(values)
    if len({value.dtype for value in values}) > 1:
        otherwise = f"{function.field}: {function.use} returned rows that do not fit together"
        return as_column(join([{name: value[np.newaxis]} for value in values], otherwise)[name])
    return as_column(np.stack(values))
