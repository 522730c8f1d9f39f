"""Runs Ray Data for all workers: fills the object store cache, and streams passes to the ranks.

Runs in the coordinator actor, so that it outlives a restarted worker group.
"""

from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ray.exceptions import ObjectLostError

from trainshed.data.loader import ray_datasets
from trainshed.data.loader.arrow_blocks import most_bytes
from trainshed.data.loader.cache_fill import CacheFill
from trainshed.data.loader.fragment_counter import FragmentCounter, is_tallied
from trainshed.data.loader.object_store_cache import CachedBlocks, ObjectStoreCache
from trainshed.data.loader.row_counts import Known, RowCounts
from trainshed.data.loader.streams import Left, PassStream
from trainshed.data.sampler.epoch_pass import EpochPass, order_of
from trainshed.data.sampler.first_pass import begin_of, order_of_fragments
from trainshed.data.sampler.stage_time import added, seconds_a_row
from trainshed.data.sources.errors import DataError, as_fault
from trainshed.failures import InfrastructureError, causes
from trainshed.ray_compat import execution
from trainshed.ray_compat.execution_budget import ExecutionBudget, on_course

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import ray
    from ray.data import Dataset
    from ray.data.block import Block

    from trainshed.data.loader.disk_cache import DiskCache
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.stage_time import Spending

# Maximum slices that a rank may be behind the stream; a slice has at most the rows of one block.
QUEUE_SLICES = 4


@dataclass(frozen=True)
class ExecutionLimits:
    """Resources of Ray Data: CPUs of each pass, and their nodes."""

    cpus: int
    node_labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Slice:
    """Rows [start, stop) of a block in the object store, which has this many rows."""

    block: ray.ObjectRef[Block]
    start: int
    stop: int
    rows: int


class DataServer:
    """Reads, transforms and splits the datasets of one run.

    Args:
        plans: by dataset.
        limits: of Ray Data.
        warn: reports problems that do not end the run.
        disk_cache: cache on disk; None without one.
    """

    def __init__(
        self,
        plans: Mapping[str, DatasetPlan],
        limits: ExecutionLimits,
        warn: Callable[[str], None],
        disk_cache: DiskCache | None = None,
    ) -> None:
        self._plans = plans
        self._limits = limits
        turn = threading.Lock()
        self._caches = {
            plan.name: ObjectStoreCache(plan.field, CacheFill(plan, warn, disk_cache), turn)
            for plan in plans.values()
            if plan.is_filled
        }
        self._tallies = {
            plan.name: FragmentCounter(plan, turn, warn)
            for plan in plans.values()
            if is_tallied(plan)
        }
        self._learned = {
            plan.name: RowCounts(plan, warn) for plan in plans.values() if plan.is_learned
        }
        # A pass stays here until two later ones are read: a late request must not restart it.
        self._streams: dict[EpochPass, PassStream[Slice]] = {}
        # Passes that will follow.
        self._courses: dict[EpochPass, ExecutionBudget] = {}
        # The newest worker group: passes of earlier groups may never be read to their end.
        self._group = 0
        self._lock = threading.RLock()
        # The time that all tasks and ranks have spent on rows.
        self.spent: Spending = {}
        execution.configure(limits.cpus, dict(limits.node_labels))

    def start(self) -> None:
        """Start to fill the caches in the background, while the workers start."""
        if self._caches or self._tallies:
            threading.Thread(target=self._prepare, name="fill-caches", daemon=True).start()

    def cached(self, name: str, lost: int = 0) -> CachedBlocks:
        """Return the blocks of a cached dataset; waits until all exist.

        Args:
            name: of the dataset.
            lost: generation of the cache whose blocks are lost: waits for a newer one.

        Raises:
            DataError: when they cannot be made.
            InfrastructureError: if a retry may succeed.
        """
        return self._caches[name].get(lost)

    def counts(self, name: str) -> Indices:
        """Return the rows of each fragment of an uncounted dataset; waits for them.

        Raises:
            DataError: if it cannot be read.
            InfrastructureError: if a retry may succeed.
        """
        return self._tallies[name].get()

    def known(self, at: EpochPass) -> Known:
        """Return the row counts that were known when a counting pass began."""
        return self._learned[at.dataset].known(at)

    def learn(self, name: str, counts: Mapping[int, int]) -> None:
        """Record the rows of fragments."""
        if waited := self._learned[name].take(counts):
            self.open(waited)

    def spend(self, spending: Spending) -> None:
        """Add the time that a task, or a rank, has spent on rows since its last report."""
        with self._lock:
            self.spent = added(self.spent, spending)

    def take(self, at: EpochPass, rank: int) -> Slice | Left | None:
        """Return the next slice of a rank in a pass, None at its end; waits for it.

        Raises:
            DataError: if the rows cannot be read or transformed.
            InfrastructureError: if a retry may succeed.
        """
        with self._lock:
            stream = self._opened(at)
            stream.come(rank)
            self._leave_earlier(at, rank)
        return stream.take(rank)

    def leave_before(self, group: int) -> None:
        """Cancel the passes of earlier worker groups, which may never be read to their end."""
        with self._lock:
            self._group = max(self._group, group)
            for at, stream in self._streams.items():
                if at.group < self._group:
                    stream.close()

    def open(self, at: EpochPass) -> None:
        """Start a pass before its first slice is requested."""
        with self._lock:
            self._opened(at)

    def _opened(self, at: EpochPass) -> PassStream[Slice]:
        if at not in self._streams:
            self.leave_before(at.group)
            stream = self._streams[at] = PassStream(at.world_size, QUEUE_SLICES)
            if at.group < self._group:
                stream.close()
            else:
                course = self._courses[at] = self._course(at)
                threading.Thread(
                    target=self._run,
                    args=(at, stream, course),
                    name=f"stream-{at.dataset}",
                    daemon=True,
                ).start()
        return self._streams[at]

    def _course(self, at: EpochPass) -> ExecutionBudget:
        """Return the budget of a pass: shared with the previous one, or a separate one if older."""
        before = self._courses.get(at) or next(
            (course for other, course in self._courses.items() if other.following == at), None
        )
        return ExecutionBudget(self._limits.cpus, self._plans[at.dataset].task_cpus, before)

    def _leave_earlier(self, at: EpochPass, rank: int) -> None:
        """Remove the rank from earlier passes of this dataset, which it may have left early."""
        earlier = sorted(
            (other for other in self._streams if other.is_before(at)), key=lambda each: each.when
        )
        for other in earlier:
            self._streams[other].leave(rank)
        for other in earlier[:-1]:
            # A rank may read alone. One that has not arrived by now starts the pass again.
            if not self._streams[other].is_read:
                self._streams.pop(other).close()

    def _prepare(self) -> None:
        with contextlib.suppress(DataError, InfrastructureError):  # callers of blocks get the error
            for cache in self._caches.values():
                cache.get()
            for tally in self._tallies.values():
                tally.get()

    def _run(self, at: EpochPass, stream: PassStream[Slice], course: ExecutionBudget) -> None:
        plan = self._plans[at.dataset]
        if at.following:
            threading.Thread(
                target=self._open_next,
                args=(at.following, stream, course),
                name=f"next-{at.dataset}",
                daemon=True,
            ).start()
        slices = self._slices(at, plan, course)
        try:
            for ranks, piece in slices:
                if not stream.put(ranks, piece):
                    break
        except Exception as error:
            stream.end(as_fault(error, plan.field))
            self._give_up_next(at)
            return
        finally:
            slices.close()  # frees Ray Data's executor if the pass was cancelled
            course.end()
            with self._lock:
                if self._courses.get(at) is course:  # it may have been restarted
                    del self._courses[at]
        stream.end()

    def _open_next(self, at: EpochPass, stream: PassStream[Slice], course: ExecutionBudget) -> None:
        """Start a pass while the last tasks of the previous stream run."""
        course.wait()
        # Only one pass ahead: many small ones fit into their queues, one behind the other.
        if not stream.wait_for_a_rank():
            return
        learned = self._learned.get(at.dataset)
        # Its order depends on rows that ranks have not reported yet.
        if (ready := learned.wait(at) if learned else at) is not None:
            with self._lock:
                if not stream.has_failed:
                    self._opened(ready)

    def _give_up_next(self, at: EpochPass) -> None:
        """Cancel the prefetched pass after one that failed, which nobody reads."""
        if (following := at.following) is None:
            return
        with self._lock:
            ahead = self._streams.get(following)
            if ahead and not ahead.was_read:
                del self._streams[following]
                ahead.close()

    def _slices(
        self, at: EpochPass, plan: DatasetPlan, course: ExecutionBudget
    ) -> Generator[tuple[Sequence[int], Slice], None, None]:
        sizes = self._sizes(plan)
        if plan.is_learned and not self.known(at).are_all:
            yield from self._uncounted(at, plan, sizes, course)
            return
        parts = plan.parts or (plan,)
        cached = {part.name: self.cached(part.name) for part in parts if part.is_filled}
        origins = [self._origin(part, cached.get(part.name)) for part in parts]
        base = order_of(plan, at, *(origin.counts for origin in origins))
        deal = ray_datasets.delivery_of(plan, origins, at, base, sizes)
        if deal.places is not None:
            how = origins[0].reading(at, at.epoch)
            dataset = ray_datasets.sorted_dataset(origins[0], how, deal)
        else:
            dataset = ray_datasets.dealt_dataset(plan, origins, at, base, deal, sizes)
            dataset = on_course(dataset, course)
        try:
            yield from _deal(deal.dealt, dataset)
        except Exception as error:
            if any(isinstance(each, ObjectLostError) for each in causes(error)):
                for name, held in cached.items():
                    self._caches[name].lose(held.filling)
            raise

    def _uncounted(
        self, at: EpochPass, plan: DatasetPlan, sizes: ray_datasets.Sizes, course: ExecutionBudget
    ) -> Iterator[tuple[Sequence[int], Slice]]:
        """Yield every block to every rank, which takes its rows from it."""
        order = order_of_fragments(plan, at)
        number, _ = begin_of(plan, at, order, self.known(at).counts)
        if number == len(order):
            return
        everybody = range(at.world_size)
        dataset = ray_datasets.uncounted_dataset(plan, at, order[number:].tolist(), sizes)
        for bundle in on_course(dataset, course).iter_internal_ref_bundles():
            for entry in bundle.blocks:
                if rows := int(entry.metadata.num_rows or 0):
                    yield everybody, Slice(entry.ref, 0, rows, rows)

    def _sizes(self, plan: DatasetPlan) -> ray_datasets.Sizes:
        """Return how much of a pass is made at once; nodes may have joined since the last one."""
        seconds = seconds_a_row(self.spent, plan.name, [part.name for part in plan.parts])
        if seconds is None:
            seconds = max(each.row_seconds for each in plan.parts or (plan,))
        bytes_a_second = plan.row_bytes / seconds if seconds else math.inf
        cpus = self._limits.cpus
        block_bytes = most_bytes(dict(self._limits.node_labels), cpus, bytes_a_second)
        return ray_datasets.Sizes(cpus, block_bytes)

    def _origin(self, plan: DatasetPlan, cached: CachedBlocks | None) -> ray_datasets.Origin:
        if cached is not None:
            return ray_datasets.Origin(plan, cached.counts, cached.blocks or None, cached.files)
        if plan.name in self._learned:
            return ray_datasets.Origin(plan, self._learned[plan.name].counts)
        counts = self.counts(plan.name) if plan.name in self._tallies else plan.counts
        return ray_datasets.Origin(plan, counts)


def _deal(
    dealt: Sequence[tuple[Sequence[int], int]], dataset: Dataset
) -> Iterator[tuple[Sequence[int], Slice]]:
    """Yield (ranks, slice), splitting the blocks of a dataset where the rows of ranks end."""
    waiting = iter(dealt)
    ranks: Sequence[int] = ()
    left = 0
    for bundle in dataset.iter_internal_ref_bundles():
        for entry in bundle.blocks:
            rows, start = int(entry.metadata.num_rows or 0), 0
            while start < rows:
                while not left:
                    ranks, left = next(waiting)
                stop = min(rows, start + left)
                yield ranks, Slice(entry.ref, start, stop, rows)
                left -= stop - start
                start = stop
