"""The order of the rows in an epoch, and two measures of how well it mixes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.epoch_pass import EpochPass, order_of, steps_for, windows_of
from trainshed.data.sampler.file_tables import FileTable, FragmentTable, Source
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sampler.permutation import EpochPermutation
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed_api.data import DatasetSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.permutation import Indices

AMPLE_MEMORY = CacheMemory(2**40, 2**40)


def make_plan(files: int, groups: int, rows: int, shuffle: Mapping[str, JsonValue]) -> DatasetPlan:
    """Return the plan of a dataset that does not exist, with a block for each row group.

    Args:
        files: number of files, all of one size.
        groups: row groups in each file.
        rows: rows in all files, a multiple of files x groups.
        shuffle: of the dataset.
    """
    fragments = [
        Fragment(f"part-{file}", file, (group,), rows // (files * groups), 0)
        for file in range(files)
        for group in range(groups)
    ]
    read: JsonValue = {"format": "parquet", "path": "nowhere"}
    spec = DatasetSpec.model_validate({"read": read, "cache": "none", "shuffle": dict(shuffle)})
    source = Source(FragmentTable.of(fragments), FileTable.of([]), pa.schema([]), "")
    measured = Measured(1.0, keeps_rows=True)
    return plan_dataset("train", spec, source, measured, AMPLE_MEMORY, 1)


def rows_in_order(plan: DatasetPlan, batch_size: int, epoch: int) -> Indices:
    """Return the rows of all full steps of an epoch in training order, shape (steps x batch,).

    The order is that of one worker; the steps are the same with any number of workers.
    """
    epoch_pass = EpochPass("train", "train", epoch, 0, 1, batch_size, seed=0)
    order = order_of(plan, epoch_pass, plan.counts)
    assert isinstance(order, EpochPermutation)
    layout = steps_for(plan, epoch_pass, order.rows)
    windows = windows_of(plan, epoch_pass, layout)
    positions = layout.places(0, 0, layout.full)
    if windows:
        shuffled = [
            full.start * layout.size + windows.order(number, 0)
            for number in windows.numbers(0)
            if (full := windows.full_steps(number))
        ]
        positions = positions[np.concatenate(shuffled)]
    return order.ids(positions)


def shuffle_windows(rows: int, window: int) -> Indices:
    """Return rows (rows,) that are shuffled within windows of their file order.

    Args:
        rows: rows in the dataset.
        window: rows in a window.
    """
    random = np.random.default_rng(0)
    starts = range(0, rows, window)
    return np.concatenate(
        [start + random.permutation(min(window, rows - start)) for start in starts]
    ).astype(np.int64)


def distance(rows: Indices) -> float:
    """Return the mean distance in training order of rows that are neighbors in the files.

    Args:
        rows: (rows,) in training order; some rows of the dataset may be missing.
    """
    positions = np.argsort(rows, kind="stable")  # in training order, by position in the files
    neighbors = np.diff(rows[positions]) == 1
    return float(np.abs(np.diff(positions))[neighbors].mean())


def spread(rows: Indices, num_rows: int, classes: int, batch_size: int) -> float:
    """Return the standard deviation of the share of a class in a batch, of files sorted by class.

    It is divided by the standard deviation of random rows, so a full shuffle has 1.

    Args:
        rows: (steps x batch,) in training order.
        num_rows: rows in the dataset, sorted by class, with equal classes.
        classes: number of classes.
        batch_size: rows in a step.
    """
    labels = (rows * classes // num_rows).reshape(-1, batch_size)
    # shares has shape (steps, classes)
    shares = np.stack([(labels == label).mean(axis=1) for label in range(classes)], axis=1)
    chance = np.sqrt((1 / classes) * (1 - 1 / classes) / batch_size)
    return float(np.sqrt(np.mean((shares - 1 / classes) ** 2)) / chance)
