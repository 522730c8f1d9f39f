"""What would make a stage of rows cheaper, or more of them go on at once, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.coordinator.stage_rates import words_of
from trainshed.data.sampler.dataset_plan import OBJECT_STORE_SHARE
from trainshed.data.sampler.sizes import megabytes
from trainshed.data.sampler.stage_time import (
    BATCH,
    COLLATE,
    READ,
    TRANSFER,
    TRANSFORMS,
    StageKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.coordinator.stage_rates import Means, StageRate
    from trainshed.data.sampler.dataset_plan import DatasetPlan

# A larger factor is not a useful setting.
MOST_TIMES = 16


def more_cpus(means: Means, number: int, before: int) -> str:
    """Return the value of data.cpus that gives this many tasks.

    Args:
        means: that rows are prepared with.
        number: that would do.
        before: as many as there are.
    """
    there = f"there are {means.cores}" if means.cores and number > means.cores else ""
    if number > MOST_TIMES * before:
        known = ", ".join(filter(None, (f"{number:,} would do", there)))
        return f"set data.cpus as high as can be ({known})"
    return f"set data.cpus to {number}{f' ({there})' if there else ''}"


def why_counted(plan: DatasetPlan, part: DatasetPlan) -> str:
    """Return why rows of a dataset were counted ahead, and what would spare that."""
    if part is not plan:
        return ", as a mix needs their number: files of trainshed data write tell it"
    if plan.spec.rows_per_epoch is not None:
        return ", as rowsPerEpoch needs their number: leave it out"
    if plan.spec.shuffle.mode == "global":
        return ", as mode: global needs their number: set mode: blocks with a bufferSize"
    if plan.spec.steps == "known":
        return ": leave out steps: known"
    return ", as the framework needs their number: files of trainshed data write tell it"


def say_stage(plan: DatasetPlan, stage_rate: StageRate, stage: StageKey) -> str:
    """Return what a stage takes of a row, and how many rows its lane can do."""
    own = 1000 * stage_rate.stages[stage] / stage_rate.rows
    whole = 1000 * stage_rate.row_seconds
    of = f"{own:.3g} ms a row" if own > 0.95 * whole else f"{own:.3g} of {whole:.3g} ms a row"
    return (
        f"{words_of(plan, stage)} needs {of} on {stage_rate.say()} = {stage_rate.rate:,.0f} rows/s"
    )


def cheaper(plan: DatasetPlan, stage: StageKey, means: Means) -> Iterator[str]:
    """Yield how a row would take less of a stage."""
    part = next((each for each in plan.parts if each.name == stage.dataset), plan)
    functions = {f"{TRANSFORMS}[{n}]": each for n, each in enumerate(part.transforms)}
    if (function := functions.get(stage.stage)) and function.kind == "rows":
        yield "kind: batches, with many rows a call"
    # Rows in the disk cache have the columns after the transforms.
    is_parquet = part.source and part.source.scan.format == "parquet" and part.cache != "disk"
    if stage.stage == READ and is_parquet and not part.spec.read.columns:
        yield "read.columns with those that are used"
    if stage.stage == READ or function:
        yield from cache_for(part, means, is_transforming=function is not None)
    if stage.stage == COLLATE:
        yield "what a row needs by itself, such as its tokens, made in transforms"
    if stage.stage in (TRANSFER, BATCH):
        yield "fewer bytes a row, such as uint8 that becomes float32 on the device"


def cache_for(part: DatasetPlan, means: Means, *, is_transforming: bool = False) -> Iterator[str]:
    """Yield which cache would spare the reading and transforming of later epochs.

    Args:
        part: whose rows they are.
        means: that they are prepared with.
        is_transforming: whether that takes longest: reading again from a disk would not help else.
    """
    if part.cache != "none" or means.epochs == 1 or part.size is None:
        return
    if means.object_store is None:
        yield f"cache: objects ({part.size.say()})"
    elif part.size.most <= OBJECT_STORE_SHARE * means.object_store:
        yield f"cache: objects ({part.size.say()}, which fits)"
    else:
        store = megabytes(means.object_store)
        yield f"a larger object store for cache: objects ({part.size.say()}, of {store} half)"
        if is_transforming:
            yield f"cache: disk ({part.size.say()} on the run's storage)"
