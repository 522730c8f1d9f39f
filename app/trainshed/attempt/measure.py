"""Prepares rows as a run would, and trains nothing: which stage is how fast."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, cast

import ray

from trainshed.attempt.launch import begin_to_feed, job_of, means_of
from trainshed.checkpoint.manifest import Position
from trainshed.coordinator import start as actor
from trainshed.coordinator.bottleneck import say_limit
from trainshed.coordinator.stage_rates import Means, lanes_of, words_of
from trainshed.data.loader.disk_cache import DiskCache
from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed.data.sources.errors import DataError, raise_again
from trainshed.data.sources.stage_timer import SECONDS_BETWEEN, TELLER
from trainshed.failures import InfrastructureError
from trainshed.planning.cluster_capacity import group_label, worker_label
from trainshed.ray_train import ray_cluster
from trainshed.storage.run_folder import ROWS_LIST
from trainshed.worker.dataset_registry import DatasetRegistry
from trainshed_api.progress import WarningEvent
from trainshed_api.quantity import parse_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ray.actor import ActorHandle

    from trainshed.attempt.signals import Stop
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.stage_time import Spending, StageKey
    from trainshed.planning.cluster_capacity import ClusterNodes
    from trainshed.planning.preflight import Prepared
    from trainshed.storage.folder import Folder
    from trainshed.worker.attempt_config import AttemptConfig

SECONDS_BETWEEN_LOOKS = 0.25
# Below a run's folder: rows that are cached on disk during the measurement.
MEASURED = "measured"
# By then tasks and ranks have reported the time they spent.
# A stage that takes less of its lane is not worth a line.
LEAST_SHARE = 0.001
SECONDS_TO_BE_TOLD = 1.5 * SECONDS_BETWEEN


@dataclass(frozen=True)
class Taken:
    """What one rank took.

    Args:
        rows: of them.
        first: seconds until the first batch.
        seconds: from the first batch to the end.
        epochs: that it began.
    """

    rows: int
    first: float
    seconds: float
    epochs: int


class Taker:
    """A rank that takes batches as fast as they come.

    Args:
        job: what workers would be told.
        coordinator: of the run.
        rank: this one.
        world_size: number of them.
    """

    def __init__(
        self, job: AttemptConfig, coordinator: Coordinator, rank: int, world_size: int
    ) -> None:
        self._feeds = DatasetRegistry(job, coordinator, rank, world_size, group=1)
        self._name = str(job.main_dataset)
        TELLER.tell(coordinator.spend)

    def take(self, seconds: float) -> Taken:
        """Take batches of one epoch after the other, for so long from the first one on."""
        began, first, rows = time.perf_counter(), None, 0
        for epoch in count():
            at = self._feeds.passing(self._name, "train", Position(epoch=epoch))
            batches = self._feeds.feed(self._name).batches(at)
            for batch in batches:
                now = time.perf_counter()
                first = now if first is None else first
                rows += batch.rows
                if now - first >= seconds:
                    batches.close()
                    TELLER.tell_now()
                    return Taken(rows, first - began, now - first, epoch + 1)
        raise AssertionError("epochs never end")


def measure(prepared: Prepared, seconds: float, stop: Stop, say: Callable[[str], None]) -> None:
    """Take batches of the main dataset on as many ranks as would train, and say what it took.

    Args:
        prepared: the run.
        seconds: for which batches are taken, from the first one on.
        stop: what ends it sooner.
        say: is told line by line.

    Raises:
        DataError: when rows cannot be read or transformed.
        InfrastructureError: when they could not be this time.
    """
    ray_cluster.start(prepared.spec)
    cluster = ray_cluster.nodes(admitted=False)
    kept = prepared.folder.at / MEASURED
    try:
        spent, taken = _measured(prepared, cluster, kept, seconds, stop, say)
    finally:
        for plan in prepared.plans.values():
            if plan.cache == "disk":
                (kept / plan.name).remove(first=ROWS_LIST)
    plan = prepared.plans[str(main_dataset(prepared.plans))]
    for line in measured_lines(plan, spent, means_of(prepared, cluster), taken):
        say(line)


def _measured(  # noqa: PLR0913, PLR0917 - what it is measured with
    prepared: Prepared,
    cluster: ClusterNodes,
    kept: Folder,
    seconds: float,
    stop: Stop,
    say: Callable[[str], None],
) -> tuple[Spending, list[Taken]]:
    """Return what was spent on rows, and what each rank took; nothing of that when stopped."""
    spec = prepared.spec
    coordinator = actor.start(spec, time.time())
    labels, _ = group_label(spec.data.placement, cluster)
    ray.get(begin_to_feed(prepared, coordinator, cluster, labels, DiskCache(kept)))
    takers = _start(prepared, coordinator, worker_label(spec, cluster))
    taking: list[ray.ObjectRef[Taken]] = [taker.take.remote(seconds) for taker in takers]
    say(f"taking batches for {seconds:g} s; Ctrl-C ends it sooner")
    pending = list(taking)
    while pending and not stop.reason:
        _, pending = ray.wait(pending, num_returns=len(pending), timeout=SECONDS_BETWEEN_LOOKS)
        for event in coordinator.look().events:
            if isinstance(event, WarningEvent):
                say(f"warning: {event.message}")
    taken = [] if pending else [_answer(each) for each in taking]
    time.sleep(SECONDS_TO_BE_TOLD)
    return coordinator.look().spent, taken


def measured_lines(
    plan: DatasetPlan, spent: Spending, means: Means, taken: Sequence[Taken]
) -> Iterator[str]:
    """Yield what was measured, line by line; pure.

    Args:
        plan: of the dataset.
        spent: by all of who prepared it.
        means: that it was prepared with.
        taken: by each rank; empty where it was stopped before.
    """
    yield f"{'stage':<44} {'ms a row':>9}  {'rows/s':>9}  by"
    stage_rates = lanes_of(plan, spent, means)
    for stage_rate in stage_rates:
        for stage, seconds in stage_rate.stages.items():
            if seconds > LEAST_SHARE * stage_rate.rows * stage_rate.row_seconds:
                rate = f"{stage_rate.number * stage_rate.rows / seconds:,.0f}"
                yield _line(plan, stage, seconds / stage_rate.rows, rate, stage_rate.say())
    streaming = {stage for stage_rate in stage_rates for stage in stage_rate.stages}
    for stage, once in spent.items():
        if stage not in streaming and once.rows:
            yield _line(plan, stage, once.seconds / once.rows, "", f"once, {once.rows:,} rows")
    if taken:
        # By the time of the slowest: a run waits for it.
        together = sum(each.rows for each in taken) / max(each.seconds for each in taken)
        yield f"first batch after {max(each.first for each in taken):.1f} s"
        yield f"all: {together:,.0f} rows/s, {max(each.epochs for each in taken)} epochs begun"
    if limit := say_limit(plan, spent, means):
        yield limit


def _line(plan: DatasetPlan, stage: StageKey, seconds: float, rate: str, by: str) -> str:
    return f"{words_of(plan, stage):<44} {1000 * seconds:9.3g}  {rate:>9}  {by}"


def _start(
    prepared: Prepared, coordinator: Coordinator, labels: Mapping[str, str]
) -> list[ActorHandle[Taker]]:
    workers = prepared.spec.workers
    job = job_of(prepared, 1, prepared.folder.at)
    made = ray.remote(Taker).options(
        num_cpus=parse_cores(workers.resources.cpu), label_selector=dict(labels)
    )
    return [
        cast("ActorHandle[Taker]", made.remote(job, coordinator, rank, workers.count))
        for rank in range(workers.count)
    ]


def _answer(taking: ray.ObjectRef[Taken]) -> Taken:
    try:
        return ray.get(taking)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, (DataError, InfrastructureError)):
            raise_again(error.cause)
        raise
