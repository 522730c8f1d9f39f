"""Calls the function of `feed.collate` on the rows of a batch. No torch here.

The function's input depends only on the rows of its batch: not on table boundaries, cache or
loader, each of which may have another representation of lists.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from trainshed.data.sources.casts import find_misfit
from trainshed.data.sources.column_arrays import as_array, as_objects
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.feed_types import check_dtype
from trainshed.data.sources.user_functions import call, random_for
from trainshed_api.data import dtype_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Array, Columns

_NUMBERS, _TEXTS = "biuf", "US"


def collate(plan: DatasetPlan, columns: Columns, ids: Indices, seed: int, epoch: int) -> object:
    """Return the result of `feed.collate` for some rows.

    Args:
        plan: of a dataset with `feed.collate`.
        columns: at least one row.
        ids: (rows,) positions in the dataset, which determine random numbers.
        seed: the run's seed.
        epoch: 0-based.

    Raises:
        DataError: if the function raises, or a column or a value cannot have its type.
    """
    function = plan.collate
    assert function
    try:
        formed = {name: _in_one_form(array) for name, array in columns.items()}
    except ValueError as error:
        raise DataError(f"{plan.field}: a row holds {error}") from error
    given = {name: _typed(plan, name, array, ids) for name, array in formed.items()}
    # After the augmentations, which draw by their position.
    return call(function, given, **random_for(function, seed, epoch, ids, len(plan.augments)))


def _in_one_form(array: Array) -> Array:
    """Return a writable column: one array if all rows have one shape.

    Otherwise each row is an object: lists become arrays, other values stay.
    """
    if array.dtype.kind in _TEXTS:  # as wide as the longest text of a table
        return array.astype(object)
    if array.dtype != object or array.ndim > 1:
        return np.require(array, requirements=["C", "W"])
    rows = _with_axes([_own(value) for value in array.tolist()])
    return _stacked(rows)


def _own(value: object) -> object:
    """Return a copy of a row's value: a cache may hold the original for the next epoch."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.astype(object) if value.dtype.kind in _TEXTS else value.copy()
    if not isinstance(value, (np.ndarray, list, tuple)):
        return deepcopy(value)
    values = [_own(each) for each in value]
    if values and all(isinstance(each, (bool, int, float, np.number, np.bool_)) for each in values):
        return as_array(values)
    return _stacked(values)


def _stacked(values: Sequence[object]) -> Array:
    """Return arrays of one type and shape as one array, otherwise each value as an object."""
    arrays = [each for each in values if isinstance(each, np.ndarray) and each.dtype != object]
    alike = len({(each.dtype, each.shape) for each in arrays}) == 1
    return np.stack(arrays) if alike and len(arrays) == len(values) else as_objects(values)


def _with_axes(rows: Sequence[object]) -> Sequence[object]:
    """Return rows in which empty lists have the type and axes of the other lists."""
    arrays = [row for row in rows if isinstance(row, np.ndarray)]
    filled = [row for row in arrays if row.size]
    if len(arrays) < len(rows) or any(row.dtype == object for row in filled):
        return rows
    empty = np.empty((0, *filled[0].shape[1:]), filled[0].dtype) if filled else np.empty(0)
    return [row if row.size or row.dtype != object else empty.copy() for row in arrays]


def _typed(plan: DatasetPlan, name: str, array: Array, ids: Indices) -> Array:
    """Return a column in the type of `feed.dtypes`.

    ids: (rows,) positions in the dataset.
    """
    dtypes = plan.spec.feed.dtypes
    wanted = dtype_for(name, dtypes)
    if wanted is None:
        return array
    if array.dtype.kind in _NUMBERS:
        check_dtype(plan, name, array, ids)
        return array.astype(wanted)
    rows: Sequence[object] = array.tolist() if array.dtype == object else []
    if numbers := [row for row in rows if _are_numbers(row)]:
        if not _all_fit(numbers, wanted):
            for place, row in enumerate(rows):
                if _are_numbers(row):
                    check_dtype(plan, name, row[np.newaxis], ids[place : place + 1])
        return as_objects([row.astype(wanted) if _are_numbers(row) else row for row in rows])
    if name in dtypes:
        kind = type(array.flat[0]).__name__
        raise DataError(f"{plan.field}.feed.dtypes.{name}: column {name} holds values of {kind}")
    return array


def _all_fit(rows: Sequence[Array], wanted: str) -> bool:
    """Return whether a type holds all values of some rows: a cheap check of all at once."""
    by_type: dict[np.dtype[np.generic], list[Array]] = {}
    for row in rows:
        by_type.setdefault(row.dtype, []).append(row.reshape(-1))
    return not any(find_misfit(np.concatenate(alike), wanted) for alike in by_type.values())


def _are_numbers(row: object) -> TypeGuard[Array]:
    return isinstance(row, np.ndarray) and row.dtype.kind in _NUMBERS
