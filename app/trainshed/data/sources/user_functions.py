"""Calls a user's function on rows, in its format, and checks its result."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.randomness import RowRandom
from trainshed.data.sources import defer_interrupts
from trainshed.data.sources.batch_formats import from_format, to_format
from trainshed.data.sources.column_arrays import Array, Columns, join, num_rows, say_columns
from trainshed.data.sources.defer_interrupts import UNBROKEN
from trainshed.data.sources.errors import DataError, FunctionError, LoadError, UsersError
from trainshed.failures import RULES, InfrastructureError, classify
from trainshed.functions import find
from trainshed_api.errors import SpecError
from trainshed_api.names import APPLICATION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.function import Function


# The first frames of a traceback are ours.
_OURS = (__file__, defer_interrupts.__file__)


@dataclass(frozen=True)
class _Loaded:
    call: Callable[..., object]
    takes_rng: bool


@functools.cache
def _load(use: str, field: str, init: str) -> _Loaded:
    found = find(use, field)
    # A class is constructed once per process, so its constructor may be expensive.
    made = found(**json.loads(init)) if inspect.isclass(found) else found
    assert callable(made)
    return _Loaded(made, "rng" in inspect.signature(made).parameters)


def random_for(
    function: Function, seed: int, epoch: int, rows: NDArray[np.int64], position: int
) -> dict[str, RowRandom]:
    """Return the keyword argument `rng`, if a function takes it.

    Args:
        function: may take `rng`.
        seed: the run's seed.
        epoch: 0-based.
        rows: (rows,) positions in the dataset, which determine random numbers.
        position: of the function among those that draw for these rows.

    Raises:
        LoadError: if it cannot be imported, or is a class that cannot be constructed.
        InfrastructureError: if that is not its fault.
    """
    wants = _loaded(function).takes_rng
    return {"rng": RowRandom(seed, epoch, rows, position)} if wants else {}


def call(function: Function, given: object, **extra: object) -> object:
    """Return the result of a function.

    Raises:
        FunctionError: if it raises.
        LoadError: as in `random_for`.
        InfrastructureError: if that is not its fault.
    """
    loaded = _loaded(function)  # errors here are not a row's fault
    options = {**dict(function.options), **extra}
    try:
        return UNBROKEN.first(function.use, lambda: loaded.call(given, **options))
    except Exception as error:
        said = f"{function.field}: {function.use} raised {_say(error)}"
        raise _fault(said, error, FunctionError) from error


def call_with_columns(function: Function, columns: Columns, **extra: object) -> object:
    """Return a function's result for some rows, passed in its format.

    Raises:
        DataError: if they cannot be converted to that format, or as in `call`.
        InfrastructureError: as in `call`.
    """
    try:
        given = to_format(columns, function.batch_format)
    except ValueError as error:
        raise DataError(f"{function.beside('batchFormat')}: {error}") from error
    return call(function, given, **extra)


def _loaded(function: Function) -> _Loaded:
    init = json.dumps(dict(function.init), sort_keys=True)
    load = functools.partial(_load, function.use, function.field, init)
    try:
        return UNBROKEN.first((function.use, init), load)
    except SpecError as error:  # it does not exist
        raise _fault(str(error), error, LoadError) from error
    except Exception as error:
        said = f"{function.field}: the constructor of {function.use} raised {_say(error)}"
        raise _fault(said, error, LoadError) from error


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _fault(
    said: str, error: Exception, of_users: type[UsersError]
) -> UsersError | InfrastructureError:
    line, kind = " ".join(said.split()), classify(error)
    if kind and RULES[kind].cause != APPLICATION:
        return InfrastructureError(line, kind)
    return of_users(line, _users_traceback(error))


def _users_traceback(error: Exception) -> str:
    frames = itertools.dropwhile(
        lambda frame: frame.filename in _OURS, traceback.extract_tb(error.__traceback__)
    )
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(["Traceback (most recent call last):\n", *lines])


def as_table(result: object, function: Function) -> Columns:
    """Return the columns that a function returned.

    Raises:
        DataError: if it is not a table.
    """
    try:
        columns = from_format(result)
    except ValueError as error:
        raise DataError(f"{function.field}: {function.use} returned {error}") from error
    if not columns:
        got = f"a {type(result).__name__}" if columns is None else "no columns"
        raise DataError(
            f"{function.field}: {function.use} returned {got}; expected a dict of columns, a "
            "pandas DataFrame or a pyarrow Table"
        )
    lengths = {name: len(array) if array.ndim else "no rows" for name, array in columns.items()}
    if len(set(lengths.values())) > 1 or "no rows" in lengths.values():
        raise DataError(
            f"{function.field}: {function.use} returned columns of different length: {lengths}"
        )
    return columns


def joined(tables: Sequence[Columns], function: Function) -> Columns:
    """Return the results of several calls in one table.

    Raises:
        DataError: if they do not match.
    """
    filled = [table for table in tables if num_rows(table)] or list(tables[:1])
    first = filled[0]
    otherwise = f"{function.field}: {function.use} returned rows that do not fit together"
    for other in filled[1:]:
        if first.keys() != other.keys() or any(_differ(first[name], other[name]) for name in first):
            one = f"{say_columns(first)} of one call"
            raise DataError(f"{otherwise}: {one}, {say_columns(other)} of another")
    return join(filled, otherwise)


def _differ(one: Array, other: Array) -> bool:
    """Return whether rows have different shapes; objects may have any."""
    objects = any(each.dtype == object and each.ndim == 1 for each in (one, other))
    return one.shape[1:] != other.shape[1:] and not objects


def as_mask(result: object, rows: int, function: Function) -> Array:
    """Return the mask of rows to keep, shape (rows,).

    Raises:
        DataError: if a filter returned anything but True or False for each of them.
    """
    if function.batch_format == "pandas":
        result = _in_order(result, rows, function)
    mask = np.asarray(result)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        got = f"a {type(result).__name__} of {mask.dtype} with the shape {mask.shape}"
        raise DataError(
            f"{function.field}: {function.use} returned {got}; expected True or False for each of "
            f"the {rows} rows"
        )
    return mask


def _in_order(result: object, rows: int, function: Function) -> object:
    """Return a Series' values in the order of the rows, by its index."""
    # A Series exists only if pandas is imported.
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(result, pandas.Series) or len(result) != rows:
        return result
    places = pandas.RangeIndex(rows)
    if result.index.equals(places):
        return result
    if not (result.index.is_unique and result.index.isin(places).all()):
        raise DataError(
            f"{function.field}: {function.use} returned a Series whose index is not that of the "
            f"rows; expected each of 0 to {rows - 1} once, or an array in the order of the rows"
        )
    return result.reindex(places)
