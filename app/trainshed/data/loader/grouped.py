"""Ray datasets of rows that are all made at once: those of a function, and of groups.

Equal rows go to one task: rows are sorted by hash, and split by ranges of hashes. The groupby of
Ray
2.60 does not work for this: its tasks ignore the node labels of data tasks, its hash of 5 differs
from that of 5.0, and its row order depends on the number of partitions.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.loader.arrow_blocks import from_block, to_block
from trainshed.data.loader.ray_datasets import (
    blocks_dataset,
    columns_of,
    function_dataset,
    materialized,
    rows_of,
    tasks_dataset,
)
from trainshed.data.sampler.permutation import first_rows
from trainshed.data.sampler.stage_time import FILL
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.column_arrays import num_rows, take_rows
from trainshed.data.sources.fragment_reader import read_whole, reading
from trainshed.data.sources.grouping import hashes
from trainshed.ray_compat.execution import Task, sorted_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from ray.data import Dataset
    from ray.data.block import Block

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.function import Function
    from trainshed.data.sources.column_arrays import Columns

# Columns with a row's destination and origin in the sort.
PART = "__trainshed_part__"
PLACE = "__trainshed_place__"
# Partitions, each a task. Their number depends only on the rows, because the blocks of a resumed
# run
# must be those that it had. More partitions are more pieces for Ray to move.
LEAST_PARTS, MOST_PARTS = 16, 512
PART_BYTES = 16 * 2**20


def made_whole(plan: DatasetPlan) -> Dataset:
    """Return a Ray dataset of all rows after the transforms.

    Args:
        plan: of a dataset that a function makes, or that has groups.

    Raises:
        DataError: if the function returns anything but a dataset.
    """
    before, *stages = _stages(plan.transforms)
    made = None if plan.use is None else function_dataset(plan, before)
    for stage in stages:
        if made is None:
            made = _spread_fragments(plan, before, stage[0])
        else:
            made = _spread_blocks(plan, made, stage[0])
        made = blocks_dataset(plan, made, functools.partial(_grouped_block, stage))
    assert made
    return made


def _stages(transforms: Sequence[Function]) -> list[list[Function]]:
    """Return the transforms up to the first groups, then each groups with what follows it."""
    stages: list[list[Function]] = [[]]
    for function in transforms:
        if function.kind == "groups":
            stages.append([])
        stages[-1].append(function)
    return stages


def _spread_fragments(plan: DatasetPlan, before: Sequence[Function], group: Function) -> Dataset:
    """Return the rows of the files, one block per partition of hashes."""
    assert plan.source
    how = replace(reading(plan), transforms=tuple(before))
    parts = min(max(LEAST_PARTS, len(plan.source.fragments)), MOST_PARTS)
    tasks = [
        Task(
            functools.partial(
                _spread, functools.partial(read_whole, how, fragment), int(first), group, parts
            ),
            rows_of(plan, fragment),
        )
        for fragment, first in zip(plan.source.fragments, plan.first_ids, strict=True)
    ]
    return sorted_by(tasks_dataset(plan, tasks, FILL), PART, range(1, parts))


def _spread_blocks(plan: DatasetPlan, made: Dataset, group: Function) -> Dataset:
    """Return the rows of a dataset, one block per partition; holds all of them in memory."""
    held = materialized(made)
    parts = min(max(LEAST_PARTS, math.ceil(held.num_bytes / PART_BYTES)), MOST_PARTS)
    firsts = first_rows(held.counts).tolist()
    tasks = [
        Task(
            functools.partial(_spread, functools.partial(columns_of, [block]), first, group, parts),
            int(rows),
        )
        for block, rows, first in zip(held.blocks, held.counts, firsts, strict=True)
    ]
    return sorted_by(tasks_dataset(plan, tasks, FILL), PART, range(1, parts))


def _spread(
    read: Callable[[], Columns], first: int, group: Function, parts: int
) -> Iterator[Block]:
    columns = read()
    rows = num_rows(columns)
    # Without a row the column may not exist: no function was called.
    numbers = hashes(columns, group) if rows else np.empty(0, dtype=np.uint64)
    half = np.uint64(32)
    part = ((numbers >> half) * np.uint64(parts)) >> half
    places = np.arange(first, first + rows, dtype=np.int64)
    yield to_block(columns | {PART: part.astype(np.int64), PLACE: places})


def _grouped_block(stage: Sequence[Function], block: pa.Table) -> Block:
    columns = from_block(block)
    del columns[PART]
    order = np.argsort(columns.pop(PLACE), kind="stable")
    return to_block(transform(take_rows(columns, order), stage))
