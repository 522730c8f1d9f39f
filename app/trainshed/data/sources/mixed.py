"""Reads mixed datasets in a worker without Ray, a few steps at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.epoch_pass import first_read, order_of, part_of, steps_for, turns_of
from trainshed.data.sampler.mixing import MixedOrder, gathered
from trainshed.data.sources.fragment_reader import Choice, Part, Reading, parts, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.data.sampler.permutation import Indices

# Bytes to read at once and hold, divided among the datasets by share.
HELD_BYTES = 64 * 2**20


@dataclass(frozen=True)
class StepRange:
    """A few steps of a rank.

    Args:
        reads: how to read the ranges of each dataset, in sequence.
        choice: this rank's rows among them.
        order: (rows,) the order of these rows.
    """

    reads: list[tuple[Reading, list[Part]]]
    choice: Choice
    order: Indices


def stretches(
    plan: DatasetPlan, at: EpochPass, counts: Sequence[Indices], choice: Choice
) -> Iterator[StepRange]:
    """Yield the reads of a rank in a pass.

    Args:
        plan: of the dataset.
        at: the pass.
        counts: (fragments,) rows of each fragment of each mixed dataset.
        choice: the rank's rows of the epoch's order.
    """
    base = order_of(plan, at, *counts)
    assert isinstance(base, MixedOrder)
    sources, steps = plan.parts or (plan,), steps_for(plan, at, base.rows)
    span = max(1, int(HELD_BYTES / plan.row_bytes) // steps.size)
    begin = steps.start(first_read(plan, at, steps))
    for start, stop in pairwise(turns_of(steps, begin, steps.rows, span)):
        order = gathered(base.pattern, base.begin + start, base.begin + stop)[choice(start, stop)]
        if not len(order):
            continue
        wanted = np.sort(order)
        reads, place = [], 0
        for segment in base.segments(start, stop):
            source = sources[segment.source]
            epoch = None if at.in_file_order else segment.epoch
            how = reading(source, part_of(plan, source, at).seed, epoch)
            reads.append((how, parts(source, segment.pieces, place)))
            place += sum(piece.rows for piece in segment.pieces)
        yield StepRange(reads, partial(_among, wanted), np.searchsorted(wanted, order))


def _among(wanted: Indices, start: int, stop: int) -> Indices:
    """Return which of the rows [start, stop) are wanted, relative to `start`."""
    low, high = np.searchsorted(wanted, [start, stop])
    return wanted[low:high] - start
