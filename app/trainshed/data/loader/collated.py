"""Applies `feed.collate` to a rank's rows of a step, in parts if the step has parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.loader.batch_structure import BatchStructure, Tensors, take_apart
from trainshed.data.sampler.batch_layout import part_spans
from trainshed.data.sampler.stage_time import COLLATE, StageKey
from trainshed.data.sources.collate import collate
from trainshed.data.sources.column_arrays import cut_rows
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.stage_timer import STAGE_TIMER

if TYPE_CHECKING:
    from trainshed.data.loader.uncounted_pass import Given
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass


def collated(
    plan: DatasetPlan, at: EpochPass, given: Given, most_parts: int
) -> tuple[Tensors, tuple[BatchStructure, ...]]:
    """Return the tensors of all parts of a step, and the structure of each part.

    The function is never called without rows: the result then has no parts.

    Args:
        plan: of a dataset with `feed.collate`.
        at: the pass.
        given: the rank's rows.
        most_parts: maximum number of parts of a step.

    Raises:
        DataError: if the function raises, or returns tensors on a device.
    """
    columns, ids = given.table
    tensors: Tensors = {}
    nests: list[BatchStructure] = []
    if not len(ids):
        return tensors, ()
    for start, stop in part_spans(given.rows, given.total, most_parts, at.world_size):
        with STAGE_TIMER.inside(StageKey(plan.name, COLLATE), stop - start):
            rows = cut_rows(columns, start, stop)
            made = collate(plan, rows, ids[start:stop], at.seed, at.epoch)
            structure, of_part = take_apart(made, f"{len(nests)}.")
        _check_place(plan, of_part)
        nests.append(structure)
        tensors |= of_part
    return tensors, tuple(nests)


def _check_place(plan: DatasetPlan, tensors: Tensors) -> None:
    devices = {tensor.device.type for tensor in tensors.values()} - {"cpu"}
    if devices and plan.collate:
        raise DataError(
            f"{plan.collate.field}: {plan.collate.use} returned a tensor on {devices.pop()}; "
            "expected it on the CPU: tensors are brought to the device while the step before it "
            "trains"
        )
