"""Passes over rows that have not been counted: where they start, and the counts so far. Pure.

The rows of each fragment are known, or -1 if it has not been read to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.epoch_pass import first_read, shuffle_mode, steps_for
from trainshed.data.sampler.permutation import fragment_order

if TYPE_CHECKING:
    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.data.sampler.permutation import Indices

UNKNOWN = -1
# Assumed rows of a dataset of unknown size: more than any has, within int64.
NO_END = 1 << 60


def nothing_known(plan: DatasetPlan) -> Indices:
    """Return the counts of a checkpoint, else unread fragments, shape (fragments,)."""
    assert plan.source
    if plan.kept and plan.kept.counts is not None and plan.counts_hold:
        return np.asarray(plan.kept.counts, dtype=np.int64)
    return np.full(len(plan.source.fragments), UNKNOWN, dtype=np.int64)


def is_complete(counts: Indices) -> bool:
    """Return whether the rows of all fragments are known."""
    return bool((counts != UNKNOWN).all())


def endless_steps(plan: DatasetPlan, at: EpochPass) -> BatchLayout:
    """Return the steps of a pass of unknown length: full steps are already final."""
    return steps_for(plan, at, NO_END)


def order_of_fragments(plan: DatasetPlan, at: EpochPass) -> Indices:
    """Return the fragments of a pass in order, shape (fragments,)."""
    assert plan.source
    files = plan.source.fragments.file.tolist()
    return fragment_order(files, shuffle_mode(plan, at), at.seed, at.epoch)


def begin_of(plan: DatasetPlan, at: EpochPass, order: Indices, counts: Indices) -> tuple[int, int]:
    """Return the index of the fragment where a pass starts, and the position of its first row.

    All fragments before it are counted, and the pass is beyond their rows.

    Args:
        plan: of the dataset.
        at: the pass.
        order: (fragments,) of the fragments in it.
        counts: (fragments,) known rows.
    """
    steps = endless_steps(plan, at)
    wanted = steps.start(first_read(plan, at, steps))
    number, place = 0, 0
    for fragment in order.tolist():
        rows = int(counts[fragment])
        if rows == UNKNOWN or place + rows > wanted:
            break
        number, place = number + 1, place + rows
    return number, place
