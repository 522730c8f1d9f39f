"""Fills the object store cache of one dataset, with the same rows in each block every time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.loader import ray_datasets
from trainshed.data.loader.disk_cache import kept_on
from trainshed.data.loader.grouped import made_whole
from trainshed.data.sampler.description import kept_counts, other_blocks
from trainshed.data.sampler.first_pass import UNKNOWN
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.loader.disk_cache import DiskCache
    from trainshed.data.loader.object_store_cache import CachedBlocks
    from trainshed.data.sampler.dataset_plan import DatasetPlan

logger = logging.getLogger(__name__)


class CacheFill:
    """Makes the blocks of a dataset, again if some are lost.

    The number of blocks of a function's dataset depends on the CPUs of the cluster, so equal rows
    are split as before.

    Args:
        plan: of the dataset.
        warn: reports problems that do not end the run.
        disk_cache: cache on disk; None without one.
    """

    def __init__(
        self, plan: DatasetPlan, warn: Callable[[str], None], disk_cache: DiskCache | None = None
    ) -> None:
        self._plan = plan
        self._warn = warn
        self._disk_cache = disk_cache
        self._wanted = kept_counts(plan)
        self._under_way = bool(plan.kept and plan.kept.under_way)

    def __call__(self) -> CachedBlocks:
        """Return the blocks.

        Raises:
            DataError: if the rows have changed, and an epoch is in progress.
        """
        plan, started = self._plan, time.perf_counter()
        if plan.cache == "disk":
            assert self._disk_cache
            return self._as_wanted(kept_on(self._disk_cache, plan, self._warn))
        dataset = made_whole(plan) if plan.is_made_whole else ray_datasets.fragments_dataset(plan)
        made = self._as_wanted(ray_datasets.materialized(dataset))
        seconds = time.perf_counter() - started
        logger.info("%s: %d rows cached in %.2f s", plan.name, made.counts.sum(), seconds)
        # Workers may be in the middle of an epoch of these blocks when some of them are lost.
        self._wanted, self._under_way = made.counts, True
        return made

    def _as_wanted(self, made: CachedBlocks) -> CachedBlocks:
        plan, wanted = self._plan, self._wanted
        if wanted is not None and len(wanted) == len(made.counts):
            # A streaming run may not have read all of them to their end.
            wanted = np.where(wanted == UNKNOWN, made.counts, wanted)
        if wanted is None or np.array_equal(made.counts, wanted):
            return made
        if plan.is_made_whole and made.blocks and made.counts.sum() == wanted.sum():
            recut = ray_datasets.recut_dataset(plan, made.blocks, made.counts, wanted)
            return ray_datasets.materialized(recut)
        difference = other_blocks(plan, made.counts, wanted)
        if self._under_way:
            raise DataError(str(difference.problem))
        self._warn(difference.note)
        return made
