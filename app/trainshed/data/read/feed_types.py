"""Looks at what is fed before it is converted to the types that `feed.dtypes` asks for.

This happens where batches are made, as augmentations may have changed values until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.read.casting import find_misfit
from trainshed.data.read.errors import DataError
from trainshed.data.read.files import place_of
from trainshed_api.data import ALL_COLUMNS, dtype_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.order.permutation import Indices
    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.read.columns import Array


def row_place(plan: DatasetPlan, number: int) -> str:
    """Return where a row is from, by its position in the dataset."""
    if plan.parts:
        return f"row {number} of the epoch"
    if plan.source is None or plan.is_made_whole:
        return f"row {number} after the transforms"
    # A fragment without rows begins where the next one does.
    part = int(np.searchsorted(plan.first_ids, number, side="right")) - 1
    row = number - int(plan.first_ids[part])
    path, place = place_of(plan.source.scan, plan.source.fragments[part], row)
    return f"{place} in {path}{'' if plan.is_told else ' as the transforms leave them'}"


def check_dtype(
    plan: DatasetPlan,
    name: str,
    array: Array,
    ids: Indices,
    place: Callable[[DatasetPlan, int], str] = row_place,
) -> None:
    """Look whether the type that `feed.dtypes` asks for holds all values of a column of numbers.

    Args:
        plan: of the dataset that is fed.
        name: of the column.
        array: the column.
        ids: (rows,) positions in the dataset.
        place: returns where the row of a position is from.

    Raises:
        DataError: naming the column, the row and the value.
    """
    wanted = dtype_for(name, plan.feed.dtypes)
    if wanted and (misfit := find_misfit(array, wanted)):
        key = name if name in plan.feed.dtypes else ALL_COLUMNS
        at = place(plan, int(ids[misfit.row]))
        raise DataError(f"{plan.field}.feed.dtypes.{key}: column {name}, {at}: {misfit}")
