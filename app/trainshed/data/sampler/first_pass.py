"""Passes over rows that nobody has counted yet: where they begin, and what they tell. Pure.

Of each fragment the rows are known, or -1 where nobody has read it to its end.
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
# Of a dataset, where its end is not in sight: more than one ever has, and still an int64.
NO_END = 1 << 60


def nothing_known(plan: DatasetPlan) -> Indices:
    """Return that no fragment was read, shape (fragments,); but what a checkpoint tells."""
    assert plan.source
    if plan.kept and plan.kept.counts is not None and plan.counts_hold:
        return np.asarray(plan.kept.counts, dtype=np.int64)
    return np.full(len(plan.source.fragments), UNKNOWN, dtype=np.int64)


def is_complete(counts: Indices) -> bool:
    """Say whether the rows of all fragments are known."""
    return bool((counts != UNKNOWN).all())


def endless_steps(plan: DatasetPlan, at: EpochPass) -> BatchLayout:
    """Return the steps of a pass whose end is not in sight: the full ones are as they will be."""
    return steps_for(plan, at, NO_END)


def order_of_fragments(plan: DatasetPlan, at: EpochPass) -> Indices:
    """Return the fragments of a pass in their order, shape (fragments,)."""
    assert plan.source
    files = [fragment.file for fragment in plan.source.fragments]
    return fragment_order(files, shuffle_mode(plan, at), at.seed, at.epoch)


def begin_of(plan: DatasetPlan, at: EpochPass, order: Indices, counts: Indices) -> tuple[int, int]:
    """Return the place among the fragments at which a pass begins, and that of its first row.

    All fragments before it are known, and their rows are behind the pass already.

    Args:
        plan: of the dataset.
        at: the pass.
        order: (fragments,) of the fragments in it.
        counts: (fragments,) what is known of them.
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
