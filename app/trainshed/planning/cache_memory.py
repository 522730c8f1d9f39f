"""What a run keeps of its datasets, held against the memory of each node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.data.sampler.batch_layout import share
from trainshed.data.sampler.shuffle_windows import span_of
from trainshed.data.sampler.sizes import NOTHING, megabytes
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.sizes import CacheMemory, Size

# Of a shuffle in a buffer: one window is handed out while the next one comes in.
WINDOWS = 2
# By which rows at most become smaller as parquet, for all that is known of them.
PACKED = 4


@dataclass(frozen=True)
class CachedDataset:
    """The cached rows of one dataset, by estimated size.

    Args:
        plan: of the dataset.
        store: bytes in the object stores of the data's nodes, all together. Ray spills to disk what
            does not fit.
        pinned_whole: bytes of which each worker reads a share in its node's object store, all at
            the same time, so that nothing of them can leave it.
        pinned_share: that share.
        worker: bytes in each worker's own memory.
    """

    plan: DatasetPlan
    store: Size
    pinned_whole: Size
    pinned_share: float
    worker: Size

    def pinned(self, num_workers: int) -> Size:
        """Return the bytes that stay in the object store of a node with `workers` workers."""
        return self.pinned_whole.part(min(1.0, self.pinned_share * num_workers))


def kept_of(plan: DatasetPlan, num_workers: int, batch_size: int) -> CachedDataset | None:
    """Return the cached rows of a dataset; None if only its function tells their size."""
    size, mode = plan.size, plan.spec.shuffle.mode
    # The size of a mix is that of an epoch; how many rows a transform leaves nobody can guess, but
    # one that makes more makes them of all.
    rows = (plan.spec.rows_per_epoch if plan.parts else None) or plan.likely_rows
    if plan.changes_rows and plan.growth == 1.0:
        rows = None
    if size is None or rows is None:
        return None
    part = 1.0 if mode == "global" or not plan.spec.split else 1.0 / num_workers
    worker = size.part(part)
    if plan.cache != "workers":
        held = WINDOWS * _window_rows(plan, num_workers, batch_size)
        worker = size.part(part * min(1.0, held / rows))
    # Workers get what they keep through the object store, and a stream is sorted in it.
    keeps = plan.cache in ("objects", "workers")
    store = size if keeps or mode == "global" else NOTHING
    pins = plan.cache == "workers" or (plan.cache == "objects" and mode == "global")
    return CachedDataset(plan, store, size if pins else NOTHING, part, worker)


def _window_rows(plan: DatasetPlan, num_workers: int, batch_size: int) -> int:
    """Return the rows of a window of all workers, or of each where each gets all rows."""
    if not plan.shuffle_buffer_rows:
        return 0
    step = batch_size if plan.spec.split else share(batch_size, num_workers, 0)
    return step * span_of(plan.shuffle_buffer_rows, step)


def check_memory(
    plans: Iterable[DatasetPlan], memory: CacheMemory, num_workers: int, batch_size: int
) -> list[str]:
    """Return what may not fit, one line each, with the numbers.

    Raises:
        SpecError: when no node with workers could hold what its workers need.
    """
    all_kept = [kept for plan in plans if (kept := kept_of(plan, num_workers, batch_size))]
    if not all_kept:
        return []
    notes = _check_pinned(all_kept, memory)
    notes += _check_workers(all_kept, memory)
    store = sum((kept.store for kept in all_kept), NOTHING)
    if 0 < memory.object_store < store.most:
        names = _names(all_kept, lambda kept: kept.store)
        notes.append(
            f"{names}: {store.say()} go through the object store of the data's nodes, which is "
            f"{megabytes(memory.object_store)} in all: what does not fit is spilled to disk"
        )
    return notes


def check_disk(plans: Iterable[DatasetPlan], free: int, where: str) -> list[str]:
    """Return which rows that are kept on the run's storage may not fit, in a line.

    Args:
        plans: of all datasets.
        free: bytes of the storage.
        where: it is.

    Raises:
        SpecError: when they cannot fit, however well parquet packs them.
    """
    kept = [(plan, plan.size) for plan in plans if plan.cache == "disk" and plan.size]
    if not kept:
        return []
    size, there = sum((each for _, each in kept), NOTHING), f"{where} has {megabytes(free)} left"
    # Of groups what goes into them is known, of which a function may make far less.
    sure = [(plan, size) for plan, size in kept if not plan.is_grouped]
    if sum(each.least for _, each in sure) > PACKED * free:
        plan, _ = max(sure, key=lambda each: each[1].likely)
        expected = f"objects or none, or more memory: {size.say()} of rows are cached, and {there}"
        raise SpecError([Problem(f"{plan.field}.cache", "disk", expected)])
    if size.most <= free:
        return []
    names = ", ".join(plan.name for plan, _ in kept)
    which = f"dataset{'s' if len(kept) > 1 else ''} {names}"
    return [
        f"{which}: {size.say()} of rows are kept as parquet, which may be smaller, and {there}: "
        "without free space no checkpoint can be written either"
    ]


def _check_pinned(all_kept: Sequence[CachedDataset], memory: CacheMemory) -> list[str]:
    """Look whether each node's object store holds what its workers read all at once.

    Where it does not, Ray 2.60 maps files below its temporary folder instead (its
    `fallback_directory`), and ends with OutOfDiskError once that is full, too.
    """
    # needs: (bytes that stay, object store, workers) of each node that may get workers
    needs = [
        (
            sum((kept.pinned(node.workers) for kept in all_kept), NOTHING),
            node.object_store,
            node.workers,
        )
        for node in memory.nodes
        if node.object_store is not None
    ]
    if not needs:
        return []
    pinned, store, workers = max(needs, key=lambda need: need[0].most - need[1])
    if pinned.most <= store:
        return []
    return [
        f"{_names(all_kept, lambda kept: kept.pinned_whole)}: {pinned.say()} must fit in the "
        f"object store of a node with {workers} workers at once, which has {megabytes(store)}: "
        "what does not fit is kept in files, which is slow"
    ]


def _check_workers(all_kept: Sequence[CachedDataset], memory: CacheMemory) -> list[str]:
    """Look whether each node's memory holds what its workers keep for themselves."""
    worker = sum((kept.worker for kept in all_kept), NOTHING)
    known = [(node, node.memory) for node in memory.nodes if node.memory is not None]
    if known and all(worker.least * node.workers > num_bytes for node, num_bytes in known):
        largest = max(all_kept, key=lambda kept: kept.worker.likely)
        node, num_bytes = max(known, key=lambda one: one[1] / one[0].workers)
        field, got, expected = _too_much_for_a_worker(largest.plan)
        expected += f": {worker.say()} a worker x {node.workers} workers on a node, "
        names = _names(all_kept, lambda kept: kept.worker)
        expected += f"which has {megabytes(num_bytes)} ({names})"
        raise SpecError([Problem(field, got, expected)])
    if 0 < memory.worker < worker.most:
        names = _names(all_kept, lambda kept: kept.worker)
        there = f"which has {megabytes(memory.worker)}"
        return [f"{names}: {worker.say()} are kept in each worker, {there}: it may be killed"]
    return []


def _too_much_for_a_worker(plan: DatasetPlan) -> tuple[str, str, str]:
    """Return field, value and what to do about it."""
    if plan.cache == "workers":
        return f"{plan.field}.cache", "workers", "objects, disk or none"
    expected = "less (a window has at least two steps of spec.batchSize)"
    return f"{plan.field}.shuffle.bufferSize", str(plan.shuffle_buffer_rows), expected


def _names(all_kept: Sequence[CachedDataset], part: Callable[[CachedDataset], Size]) -> str:
    names = [kept.plan.name for kept in all_kept if part(kept).most]
    return f"dataset{'s' if len(names) > 1 else ''} {', '.join(names)}"
