"""Counts the rows of a dataset without row counts, if they must be known ahead."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.loader import ray_datasets
from trainshed.data.sampler.description import kept_counts, other_counts
from trainshed.data.sampler.first_pass import is_complete
from trainshed.data.sources.errors import DataError, as_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.permutation import Indices

logger = logging.getLogger(__name__)


def is_tallied(plan: DatasetPlan) -> bool:
    """Return whether a dataset must be read to know its rows."""
    return plan.source is not None and not (
        plan.has_row_counts or plan.is_filled or plan.is_learned
    )


class FragmentCounter:
    """The rows of each fragment of one dataset, counted on the first request.

    Args:
        plan: of the dataset.
        turn: lock for reading a whole dataset: each uses all CPUs of the data.
        warn: reports problems that do not end the run.
    """

    def __init__(
        self, plan: DatasetPlan, turn: threading.Lock, warn: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._turn = turn
        self._warn = warn
        self._lock = threading.Lock()
        known = kept_counts(plan) if plan.counts_hold else None
        self._counts = known if known is not None and is_complete(known) else None

    def get(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,); waits for them.

        Raises:
            DataError: if the dataset cannot be read, or has other rows than a checkpoint in the
                middle of an epoch.
            InfrastructureError: if a retry may succeed.
        """
        with self._lock:
            if self._counts is None:
                try:
                    with self._turn:
                        counts = self._counted()
                except Exception as error:
                    raise as_fault(error, self._plan.field) from None
                self._compare(counts)
                self._counts = counts
            return self._counts

    def _compare(self, counts: Indices) -> None:
        """Compare rows with those of a checkpoint, which may have only some fragments."""
        plan = self._plan
        if difference := other_counts(plan, counts):
            if plan.kept and plan.kept.under_way:
                raise DataError(str(difference.problem))
            self._warn(difference.note)

    def _counted(self) -> Indices:
        started = time.perf_counter()
        blocks = ray_datasets.tallied_dataset(self._plan).iter_batches(
            batch_size=None, batch_format="numpy"
        )
        counts = np.concatenate([block[ray_datasets.TALLY] for block in blocks])
        seconds = time.perf_counter() - started
        logger.info("%s: %d rows counted in %.2f s", self._plan.name, counts.sum(), seconds)
        return counts
