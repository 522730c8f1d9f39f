"""Runs Ray Data for all workers: fills the object store cache, and streams passes piece by piece.

Lives in the coordinator actor, so that it outlives a worker group that is restarted.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.order import Indices, interleave
from trainshed.data.schedule import Pass, delivery, rank_pieces, shuffle_mode
from trainshed.data.source import (
    cached_dataset,
    fragments_dataset,
    function_dataset,
    pieces_dataset,
    sorted_dataset,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import ray
    from ray.data import Dataset
    from ray.data.block import Block

    from trainshed.data.plan import DatasetPlan

logger = logging.getLogger(__name__)

# Pieces a rank may be behind the stream: about 16 MB each.
QUEUE_PIECES = 16


@dataclass(frozen=True)
class Limits:
    """What Ray Data may use: CPUs of all datasets together, and the nodes they must be on."""

    cpus: int
    node_labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Slice:
    """Rows [start, stop) of a block in the object store."""

    block: ray.ObjectRef[Block]
    start: int
    stop: int


@dataclass(frozen=True)
class CachedBlocks:
    """All blocks of a dataset in the object store; `counts` has the rows of each, shape (blocks,)."""

    blocks: tuple[ray.ObjectRef[Block], ...]
    counts: Indices


@dataclass
class _Stream:
    queues: list[deque[Slice]]
    changed: threading.Condition = field(default_factory=threading.Condition)
    done: bool = False
    closed: bool = False
    error: BaseException | None = None


class Feeder:
    """Reads, transforms and deals out the datasets of one run."""

    def __init__(self, plans: Mapping[str, DatasetPlan], limits: Limits) -> None:
        self._plans = plans
        self._cached: dict[str, CachedBlocks] = {}
        self._cache_error: BaseException | None = None
        self._cache_changed = threading.Condition()
        self._streams: dict[Pass, _Stream] = {}
        self._lock = threading.Lock()
        _limit_ray_data(limits)

    def start(self) -> None:
        """Begin to fill the caches in the background, while the workers start."""
        threading.Thread(target=self._fill_caches, name="fill-caches", daemon=True).start()

    def cached(self, name: str) -> CachedBlocks:
        """Return the blocks of a cached dataset; waits until they are all there."""
        with self._cache_changed:
            self._cache_changed.wait_for(lambda: name in self._cached or self._cache_error)
            if name not in self._cached and self._cache_error:
                raise self._cache_error
            return self._cached[name]

    def take(self, at: Pass, rank: int) -> Slice | None:
        """Return the next slice of a rank in a pass, None at its end; waits for it."""
        stream = self._open(at)
        with stream.changed:
            stream.changed.wait_for(lambda: stream.queues[rank] or stream.done or stream.closed)
            if stream.queues[rank]:
                taken = stream.queues[rank].popleft()
                stream.changed.notify_all()
                return taken
            if stream.error:
                raise stream.error
            return None

    def open(self, at: Pass) -> None:
        """Begin a pass before its first slice is asked for."""
        self._open(at)

    def _open(self, at: Pass) -> _Stream:
        with self._lock:
            if at not in self._streams:
                self._forget(at)
                stream = _Stream([deque() for _ in range(at.num_ranks)])
                self._streams[at] = stream
                threading.Thread(
                    target=self._run, args=(at, stream), name=f"stream-{at.dataset}", daemon=True
                ).start()
            return self._streams[at]

    def _forget(self, at: Pass) -> None:
        """Close passes that nobody will read on: of an earlier group, or finished ones."""
        for other, stream in list(self._streams.items()):
            read = stream.done and not any(stream.queues)
            stale = other.group != at.group
            if stale or (read and other.dataset == at.dataset):
                with stream.changed:
                    stream.closed = True
                    stream.changed.notify_all()
                del self._streams[other]

    def _fill_caches(self) -> None:
        for name, plan in self._plans.items():
            if plan.loader == "torch" or plan.cache == "none":
                continue
            try:
                started = time.perf_counter()
                dataset = function_dataset(plan) if plan.use else fragments_dataset(plan)
                entries = [
                    entry
                    for bundle in dataset.materialize().iter_internal_ref_bundles()
                    for entry in bundle.blocks
                    if entry.metadata.num_rows
                ]
                counts = np.asarray([entry.metadata.num_rows for entry in entries], dtype=np.int64)
                filled = CachedBlocks(tuple(entry.ref for entry in entries), counts)
            except Exception as error:
                with self._cache_changed:
                    self._cache_error = error
                    self._cache_changed.notify_all()
                return
            seconds = time.perf_counter() - started
            logger.info("%s: %d rows cached in %.2f s", name, int(counts.sum()), seconds)
            with self._cache_changed:
                self._cached[name] = filled
                self._cache_changed.notify_all()

    def _run(self, at: Pass, stream: _Stream) -> None:
        try:
            for rank, piece in self._slices(at):
                targets = [rank] if self._plans[at.dataset].split else range(at.num_ranks)
                with stream.changed:
                    stream.changed.wait_for(
                        lambda: stream.closed or len(stream.queues[rank]) < QUEUE_PIECES
                    )
                    if stream.closed:
                        return
                    for target in targets:
                        stream.queues[target].append(piece)
                    stream.changed.notify_all()
        except Exception as error:
            stream.error = error
        finally:
            with stream.changed:
                stream.done = True
                stream.changed.notify_all()

    def _slices(self, at: Pass) -> Iterator[tuple[int, Slice]]:
        plan = self._plans[at.dataset]
        counts = self.cached(at.dataset).counts if plan.cache == "objects" else plan.counts
        epoch = None if at.kind == "exact" else at.epoch
        if shuffle_mode(plan, at) == "global":
            positions, turns = delivery(plan, at, int(counts.sum()))
            yield from _deal(turns, sorted_dataset(plan, positions, at.seed, epoch))
            return
        ranks = range(at.num_ranks) if plan.split else range(1)
        dealt = interleave([rank_pieces(plan, at, counts, rank) for rank in ranks])
        pieces = [piece for _, piece in dealt]
        if plan.cache == "objects":
            blocks = self.cached(at.dataset).blocks
            dataset = cached_dataset(plan, blocks, counts, pieces, at.seed, epoch)
        else:
            dataset = pieces_dataset(plan, pieces, at.seed, epoch)
        turns = [(rank, piece.rows) for rank, piece in dealt]
        yield from _deal(turns, dataset)


def _deal(turns: list[tuple[int, int]], dataset: Dataset) -> Iterator[tuple[int, Slice]]:
    """Yield (rank, slice), cutting the blocks of a dataset where a rank's turn ends."""
    waiting = iter(turns)
    rank, left = -1, 0
    for bundle in dataset.iter_internal_ref_bundles():
        for entry in bundle.blocks:
            rows, start = int(entry.metadata.num_rows or 0), 0
            while start < rows:
                while not left:
                    rank, left = next(waiting)
                stop = min(rows, start + left)
                yield rank, Slice(entry.ref, start, stop)
                left -= stop - start
                start = stop


def _limit_ray_data(limits: Limits) -> None:
    from ray.data import DataContext, ExecutionResources

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = None  # one block a task, so that blocks are our fragments
    context.execution_options.preserve_order = True
    context.execution_options.resource_limits = ExecutionResources(cpu=limits.cpus)
    if limits.node_labels:
        context.execution_options.label_selector = dict(limits.node_labels)
    with contextlib.suppress(AttributeError):
        context.enable_operator_progress_bars = False
