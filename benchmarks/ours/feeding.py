"""Starts a coordinator, and ranks that take their batches without training on them."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from trainshed.data.sampler.epoch_pass import EpochPass, steps_for
from trainshed.data.sampler.sizes import CacheMemory, Measured, WorkerNode
from trainshed.data.sources.parquet import open_source
from trainshed.storage.disk import Disk
from trainshed_api.data import DatasetSpec
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue
    from ray.actor import ActorHandle

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.loader.batches import Batch
    from trainshed.data.loader.prefetch import Prefetched
    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.dataset_plan import DatasetPlan

# More than any of these datasets needs: which cache there is is always asked for.
ROOM = CacheMemory(2**40, 2**40, nodes=(WorkerNode(1, 2**40, 2**40),))


@dataclass(frozen=True)
class Nodes:
    """A Ray of this machine that this process has joined.

    Args:
        address: of its head.
    """

    address: str

    def join_anew(self) -> None:
        """Join it as a new job, with processes of its own; the one before is over."""
        ray.shutdown()
        _join(self.address)


@contextmanager
def nodes(labels: Sequence[str], store_bytes: int) -> Iterator[Nodes]:
    """Run a Ray with a node for each label on this machine, the first its head, and join it."""
    cluster = Cluster()
    for number, label in enumerate(labels):
        arguments = {"num_cpus": 2, "object_store_memory": store_bytes, "labels": {"side": label}}
        if not number:
            arguments["include_dashboard"] = False
        cluster.add_node(wait=True, **arguments)
    _join(cluster.address)
    try:
        yield Nodes(cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


def plan_of(  # noqa: PLR0913 - what a spec says of a dataset, and what is measured of it
    name: str,
    data: Path,
    row_bytes: float,
    *,
    shuffle: Mapping[str, JsonValue],
    cache: str = "none",
    transforms: Sequence[JsonValue] = (),
) -> DatasetPlan:
    """Return the plan of a dataset of a folder."""
    spec = DatasetSpec.model_validate(
        {
            "read": {"format": "parquet", "path": str(data)},
            "shuffle": dict(shuffle),
            "cache": cache,
            "transforms": list(transforms),
        }
    )
    source = open_source(Disk(data), (), f"spec.data.datasets.{name}.read")
    measured = Measured(row_bytes, keeps_rows=True)
    return plan_dataset(name, spec, source, measured, ROOM, 1)


def pass_of(plan: DatasetPlan, world_size: int, batch_size: int, **at: int) -> EpochPass:
    """Return a pass of training over a dataset; `at` has epoch, epochs, first step and group."""
    return EpochPass(
        plan.name,
        "train",
        at.get("epoch", 0),
        at.get("first_step", 0),
        world_size,
        batch_size,
        seed=0,
        group=at.get("group", 0),
        epochs=at.get("epochs"),
    )


def steps_of(plan: DatasetPlan, at: EpochPass) -> BatchLayout:
    """Return the steps of a pass over what is in the files."""
    return steps_for(plan, at, int(plan.counts.sum()))


def feed(
    plans: Sequence[DatasetPlan], labels: tuple[tuple[str, str], ...] = (), ranks: int = 4
) -> Coordinator:
    """Start a coordinator that feeds datasets with one CPU; it has imported all that it needs."""
    spec = TrainingRunSpec.model_validate(
        {
            "train": "nobody:trains",
            "epochs": 1,
            "batchSize": ranks,
            "workers": {"count": ranks},
            "data": {
                "datasets": {
                    plan.name: {"read": {"format": "parquet", "path": "here"}} for plan in plans
                }
            },
        }
    )
    client = coordinator.start(spec, time.time())
    named = {plan.name: plan for plan in plans}
    client.feed(named, ExecutionLimits(1, labels), Means(1, ranks))
    return client


class Rank:
    """A worker that takes its batches and does nothing with them; all of them are on one node.

    Args:
        rank: which one.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._batches: Prefetched[Batch] | None = None
        # As in a worker of a run: one feed for each dataset, with its cache.
        self._feeds: dict[tuple[ActorHandle[Any], str], Feed] = {}
        keep_freed_memory()

    def ready(self) -> None:
        """Be there: all is imported."""

    def begin(
        self, plan: DatasetPlan, at: EpochPass, handle: ActorHandle[Any], steps: int
    ) -> float:
        """Take the first batches of a pass and stay in it; return when the last one came.

        Returns:
            Seconds since 1970.
        """
        self._batches = self._open(plan, at, handle)
        for _ in range(steps):
            next(self._batches)
        return time.time()

    def leave(self) -> None:
        """Take no more of the pass that was begun."""
        if self._batches:
            self._batches.close()
        self._batches = None

    def epochs(
        self, plan: DatasetPlan, at: EpochPass, handle: ActorHandle[Any], pause: float
    ) -> list[dict[str, float]]:
        """Read all epochs of a run from the first one on, with a feed of its own.

        Returns:
            Their times.
        """
        clock, feed = EpochClock(), self._feed(plan, handle)
        for epoch in range(at.epochs or 1):
            for _ in clock.batches(feed.batches(replace(at, epoch=epoch))):
                time.sleep(pause)
        return clock.epochs

    def count(self, plan: DatasetPlan, at: EpochPass, handle: ActorHandle[Any]) -> int:
        """Read a pass to its end; return the rows that this rank had."""
        return sum(batch.rows for batch in self._open(plan, at, handle))

    def _open(
        self, plan: DatasetPlan, at: EpochPass, handle: ActorHandle[Any]
    ) -> Prefetched[Batch]:
        key = (handle, plan.name)
        if key not in self._feeds:
            self._feeds[key] = self._feed(plan, handle)
        return self._feeds[key].batches(at)

    def _feed(self, plan: DatasetPlan, handle: ActorHandle[Any]) -> Feed:
        fed = RemoteSource(plan, handle, self._rank)
        return Feed(plan, fed, self._rank, uncounted=fed)


def ranks_on(sides: Sequence[str]) -> list[ActorHandle[Rank]]:
    """Start a rank for each label of a node; all of them are there."""
    actor = ray.remote(Rank)
    ranks = [
        cast(
            "ActorHandle[Rank]",
            actor.options(num_cpus=0, label_selector={"side": side}).remote(number),
        )
        for number, side in enumerate(sides)
    ]
    ray.get([rank.ready.remote() for rank in ranks])
    return ranks


def first_batches(
    ranks: Sequence[ActorHandle[Rank]], plan: DatasetPlan, at: EpochPass, client: Coordinator
) -> float:
    """Return when all ranks had their first batch of a pass, seconds since 1970."""
    came = [rank.begin.remote(plan, at, handle_of(client), 1) for rank in ranks]
    return float(max(ray.get(came)))


def epochs(
    ranks: Sequence[ActorHandle[Rank]],
    plan: DatasetPlan,
    at: EpochPass,
    client: Coordinator,
    pause: float,
) -> list[list[dict[str, float]]]:
    """Return the times of all epochs of each rank."""
    coming = [rank.epochs.remote(plan, at, handle_of(client), pause) for rank in ranks]
    found: list[list[dict[str, float]]] = ray.get(coming)
    return found


def leave(ranks: Sequence[ActorHandle[Rank]]) -> None:
    """Let ranks take no more."""
    ray.get([rank.leave.remote() for rank in ranks])


def noted(batch: dict[str, Any], folder: str) -> dict[str, Any]:
    """Note which rows a task made; a transform that changes nothing."""
    with (Path(folder) / str(os.getpid())).open("a", encoding="ascii") as file:
        file.write(" ".join(map(str, batch["id"].tolist())) + "\n")
    return batch


def _join(address: str) -> None:
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def own_bytes(process: Path) -> int:
    """Return the memory that is a process's own, the object store's left out.

    process: its folder below /proc.
    """
    status = (process / "status").read_text(encoding="utf-8")
    # proc(5): RssAnon is in kB, which are KiB
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024
