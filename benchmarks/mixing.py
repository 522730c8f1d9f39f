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

ROOM = CacheMemory(2**40, 2**40)


def plan_of(files: int, groups: int, rows: int, shuffle: Mapping[str, JsonValue]) -> DatasetPlan:
    """Return the plan of a dataset that nobody wrote, a block for each row group.

    Args:
        files: all of one size.
        groups: row groups of each.
        rows: of all files; a multiple of files x groups.
        shuffle: of its spec.
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
    return plan_dataset("train", spec, source, measured, ROOM, 1)


def rows_in_order(plan: DatasetPlan, batch_size: int, epoch: int) -> Indices:
    """Return the rows of all full steps of an epoch as they are trained, shape (steps x batch,).

    One worker's, which are the steps of any number of them.
    """
    at = EpochPass("train", "train", epoch, 0, 1, batch_size, seed=0)
    base = order_of(plan, at, plan.counts)
    assert isinstance(base, EpochPermutation)
    steps = steps_for(plan, at, base.rows)
    windows = windows_of(plan, at, steps)
    places = steps.places(0, 0, steps.full)
    if windows:
        spans = [
            full.start * steps.size + windows.order(number, 0)
            for number in windows.numbers(0)
            if (full := windows.full_steps(number))
        ]
        places = places[np.concatenate(spans)]
    return base.ids(places)


def windows_in_order(rows: int, window: int) -> Indices:
    """Return what a plain shuffle of window after window gives, shape (rows,).

    Args:
        rows: of the dataset, in the order of its files.
        window: rows that are mixed with each other alone.
    """
    drawn = np.random.default_rng(0)
    starts = range(0, rows, window)
    return np.concatenate(
        [start + drawn.permutation(min(window, rows - start)) for start in starts]
    ).astype(np.int64)


def distance(rows: Indices) -> float:
    """Return how far apart rows are trained that were neighbours in the files, in rows, the mean.

    Args:
        rows: (rows,) as they are trained; some of the dataset's may be missing.
    """
    trained = np.argsort(rows, kind="stable")  # places, by the position in the files
    neighbours = np.diff(rows[trained]) == 1
    return float(np.abs(np.diff(trained))[neighbours].mean())


def spread(rows: Indices, num_rows: int, classes: int, batch_size: int) -> float:
    """Return the standard deviation of a class's share in a batch, where the files are sorted.

    As a multiple of that of rows drawn at random: 1 is what a permutation of all rows gives.

    Args:
        rows: (steps x batch,) as they are trained.
        num_rows: of the dataset, sorted by class, each as often.
        classes: how many.
        batch_size: rows of a step.
    """
    labels = (rows * classes // num_rows).reshape(-1, batch_size)
    # shares has shape (steps, classes)
    shares = np.stack([(labels == each).mean(axis=1) for each in range(classes)], axis=1)
    chance = np.sqrt((1 / classes) * (1 - 1 / classes) / batch_size)
    return float(np.sqrt(np.mean((shares - 1 / classes) ** 2)) / chance)
