"""Starts a coordinator, and ranks that take their batches without training on them."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ray
from ray.cluster_utils import Cluster

from benchmarks.plain.clock import EpochClock
from trainshed.allocator import keep_freed_memory
from trainshed.coordinator import start as coordinator
from trainshed.coordinator.client import handle_of
from trainshed.coordinator.stage_rates import Means
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.data_server import ExecutionLimits
from trainshed.data.loader.row_sources import RemoteSource
from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sampler.sizes import CacheMemory, Measured, WorkerNode
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.disk import Disk
from trainshed_api.data import DatasetSpec
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue
    from ray.actor import ActorHandle

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.loader.batches import Batch
    from trainshed.data.loader.prefetch import Prefetched
    from trainshed.data.sampler.dataset_plan import DatasetPlan

# More than any dataset here needs, so that no plan is limited by memory.
AMPLE_MEMORY = CacheMemory(2**40, 2**40, nodes=(WorkerNode(1, 2**40, 2**40),))


@contextmanager
def start_ray(labels: Sequence[str], store_bytes: int) -> Iterator[str]:
    """Run Ray with one node for each label `side` and connect to it; yield the head's address."""
    cluster = Cluster()
    for number, label in enumerate(labels):
        options = {"num_cpus": 2, "object_store_memory": store_bytes, "labels": {"side": label}}
        cluster.add_node(wait=True, **options, **({} if number else {"include_dashboard": False}))
    connect(cluster.address)
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


def connect(address: str) -> None:
    """Connect this process to Ray as a new job with new processes; ends the job before it."""
    ray.shutdown()
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def make_plan(
    name: str, folder: Path, row_bytes: float, ranks: int, **fields: JsonValue
) -> DatasetPlan:
    """Return the plan of a dataset in a folder.

    The first pass counts the rows if the files do not.

    Args:
        name: of the dataset.
        folder: folder of the files.
        row_bytes: size of a row.
        ranks: ranks that take its batches.
        fields: of the dataset's spec; Parquet without a cache by default.
    """
    read: JsonValue = {"format": "parquet", "path": str(folder)}
    spec = DatasetSpec.model_validate({"read": read, "cache": "none", **fields})
    source = open_source(Disk(folder), spec.read, f"spec.data.datasets.{name}.read")
    measured = Measured(row_bytes, keeps_rows=True)
    return plan_dataset(name, spec, source, measured, AMPLE_MEMORY, ranks, may_learn=True)


def make_pass(plan: DatasetPlan, world_size: int, batch_size: int) -> EpochPass:
    """Return the training pass of the first epoch."""
    return EpochPass(plan.name, "train", 0, 0, world_size, batch_size, seed=0)


def start_coordinator(plans: Sequence[DatasetPlan], ranks: int = 4) -> Coordinator:
    """Start a coordinator that serves datasets with one CPU; it has finished its imports."""
    read = {"read": {"format": "parquet", "path": "here"}}
    spec = TrainingRunSpec.model_validate(
        {
            "train": "unused:train",
            "epochs": 1,
            "batchSize": ranks,
            "workers": {"count": ranks},
            "data": {"datasets": {plan.name: read for plan in plans}},
        }
    )
    client = coordinator.start(spec, time.time())
    client.feed({plan.name: plan for plan in plans}, ExecutionLimits(1, ()), Means(1, ranks))
    return client


class Rank:
    """A worker that takes its batches without training on them.

    Args:
        rank: rank of the worker.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._batches: Prefetched[Batch] | None = None
        # As in a worker of a run: one feed for each dataset, with its cache.
        self._feeds: dict[tuple[ActorHandle[Any], str], Feed] = {}
        keep_freed_memory()

    def wait_for_imports(self) -> None:
        """Return when the imports of this actor have finished."""

    def begin(
        self, plan: DatasetPlan, epoch_pass: EpochPass, handle: ActorHandle[Any], steps: int
    ) -> float:
        """Take the first batches of a pass, without ending it; return the time of the last one.

        Returns:
            Seconds since 1970.
        """
        self._batches = self._open(plan, epoch_pass, handle)
        for _ in range(steps):
            next(self._batches)
        return time.time()

    def stop(self) -> None:
        """End the pass of `begin`."""
        if self._batches:
            self._batches.close()
        self._batches = None

    def measure_epochs(
        self, plan: DatasetPlan, epoch_pass: EpochPass, handle: ActorHandle[Any], pause: float
    ) -> list[dict[str, float]]:
        """Take all epochs with a new feed, `pause` seconds after each batch; return their times."""
        clock, feed = EpochClock(), self._make_feed(plan, handle)
        for epoch in range(epoch_pass.epochs or 1):
            for _ in clock.batches(feed.batches(replace(epoch_pass, epoch=epoch))):
                time.sleep(pause)
        return clock.epochs

    def count_rows(self, plan: DatasetPlan, epoch_pass: EpochPass, handle: ActorHandle[Any]) -> int:
        """Take a whole pass; return the number of rows of this rank."""
        return sum(batch.rows for batch in self._open(plan, epoch_pass, handle))

    def _open(
        self, plan: DatasetPlan, epoch_pass: EpochPass, handle: ActorHandle[Any]
    ) -> Prefetched[Batch]:
        key = (handle, plan.name)
        if key not in self._feeds:
            self._feeds[key] = self._make_feed(plan, handle)
        return self._feeds[key].batches(epoch_pass)

    def _make_feed(self, plan: DatasetPlan, handle: ActorHandle[Any]) -> Feed:
        source = RemoteSource(plan, handle, self._rank)
        return Feed(plan, source, self._rank, uncounted=source)


def start_ranks(sides: Sequence[str]) -> list[ActorHandle[Rank]]:
    """Start one rank on each of these nodes, named by their label, and wait for their imports."""
    actor = ray.remote(Rank)
    ranks = [
        cast(
            "ActorHandle[Rank]",
            actor.options(num_cpus=0, label_selector={"side": side}).remote(number),
        )
        for number, side in enumerate(sides)
    ]
    ray.get([rank.wait_for_imports.remote() for rank in ranks])
    return ranks


def wait_for_first(
    ranks: Sequence[ActorHandle[Rank]],
    plan: DatasetPlan,
    epoch_pass: EpochPass,
    client: Coordinator,
) -> float:
    """Return when all ranks had the first batch of a pass, seconds since 1970."""
    times = [rank.begin.remote(plan, epoch_pass, handle_of(client), 1) for rank in ranks]
    return float(max(ray.get(times)))


def stop(ranks: Sequence[ActorHandle[Rank]]) -> None:
    """End the passes that the ranks have begun."""
    ray.get([rank.stop.remote() for rank in ranks])


def record_ids(batch: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the batch unchanged; append its `id` column to a file of this process."""
    with (Path(folder) / str(os.getpid())).open("a", encoding="ascii") as file:
        file.write(" ".join(map(str, batch["id"].tolist())) + "\n")
    return batch
