"""Checks fed columns before they are converted to the types of `feed.dtypes`.

This runs where batches are made, because augmentations may have changed values until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sources.casts import find_misfit
from trainshed.data.sources.dataset_files import place_of
from trainshed.data.sources.errors import DataError
from trainshed_api.data import ALL_COLUMNS, dtype_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Array


def row_place(plan: DatasetPlan, number: int) -> str:
    """Return the location of a row, from its position in the dataset."""
    if plan.parts:
        return f"row {number} of the epoch"
    if plan.source is None or plan.is_made_whole:
        return f"row {number} after the transforms"
    # A fragment without rows begins where the next one does.
    part = int(np.searchsorted(plan.first_ids, number, side="right")) - 1
    row = number - int(plan.first_ids[part])
    return place_in(plan, plan.source, plan.source.fragments[part], row)


def place_in(plan: DatasetPlan, source: Source, fragment: Fragment, row: int) -> str:
    """Return the location of a row.

    Args:
        plan: of its dataset.
        source: files of the dataset.
        fragment: that has the row.
        row: index among the fed rows of the fragment.
    """
    # Transforms that kept all sampled rows may remove others, unless counts exclude it.
    may_differ = plan.changes_rows or (plan.transforms and not plan.has_row_counts)
    if not (may_differ or source.scan.selection):
        path, place = place_of(source.scan, fragment, row)
        return f"{place} in {path}"
    part = f" of {fragment.say_row_groups()}" if fragment.row_groups else ""
    begin = f" from byte {fragment.span[0]} on" if fragment.span else ""
    left = " as the transforms leave them" if plan.transforms else ", of the rows that are chosen"
    return f"row {row}{part}{begin} in {fragment.path}{left}"


def check_dtype(
    plan: DatasetPlan,
    name: str,
    array: Array,
    ids: Indices,
    place: Callable[[DatasetPlan, int], str] = row_place,
) -> None:
    """Check that the type of `feed.dtypes` holds all values of a numeric column.

    Args:
        plan: of the dataset that is fed.
        name: of the column.
        array: the column.
        ids: (rows,) positions in the dataset.
        place: returns the location of the row at a position.

    Raises:
        DataError: naming the column, the row and the value.
    """
    wanted = dtype_for(name, plan.spec.feed.dtypes)
    if wanted and (misfit := find_misfit(array, wanted)):
        key = name if name in plan.spec.feed.dtypes else ALL_COLUMNS
        at = place(plan, int(ids[misfit.row]))
        raise DataError(f"{plan.field}.feed.dtypes.{key}: column {name}, {at}: {misfit}")
