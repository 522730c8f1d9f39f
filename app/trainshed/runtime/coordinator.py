"""The one actor beside the workers: it feeds them, and it is where the run is known.

It takes no CPU and lives on the driver's node, so it outlives worker groups but not the driver.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import ray

from trainshed.data.feeder import CachedBlocks, Feeder, Limits, Slice
from trainshed.runtime.client import Client
from trainshed.runtime.hub import Ending, Failure, Hub, Reported, Seconds
from trainshed.runtime.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ray.actor import ActorHandle

    from trainshed.data.plan import DatasetPlan
    from trainshed.data.schedule import Pass
    from trainshed_api.progress import Event

# Programs of the user's find the actor of their run by its name, in a namespace of our own.
NAMESPACE = "trainshed"


@dataclass(frozen=True)
class View:
    """What the driver sees: events since it last looked, and the state."""

    time: float
    events: Sequence[Event]
    groups: int
    failure: Failure | None
    ending: Ending | None
    reported: Reported
    seconds: Seconds


class Coordinator:
    """Thin: the feeder moves rows, the hub keeps what is known."""

    def __init__(self, plans: Mapping[str, DatasetPlan], limits: Limits, started: float) -> None:
        self._hub = Hub(started)
        self._passes: Mapping[str, int] = {}
        self._feeder = Feeder(plans, limits) if plans else None
        # Ray Data tells of each execution, and warns of CPUs that the next second are free again.
        quiet("ray.data", logging.CRITICAL)
        if self._feeder:
            self._feeder.start()

    def cached(self, name: str) -> CachedBlocks:
        """Return a cached dataset's blocks; waits for them."""
        assert self._feeder
        return self._feeder.cached(name)

    def take(self, at: Pass, rank: int) -> Slice | None:
        """Return the rank's next slice of a pass; waits for it."""
        assert self._feeder
        return self._feeder.take(at, rank)

    def open(self, at: Pass) -> None:
        """Begin a pass before its first slice is asked for."""
        assert self._feeder
        self._feeder.open(at)

    def join(self, step: int) -> int:
        """Take in a worker group; return its number."""
        return self._hub.join(time.time(), step)

    def push(self, group: int, seconds: Mapping[str, float], events: Sequence[Event]) -> str | None:
        """Take in what rank 0 says; return why to stop, if so."""
        self._hub.update(group, seconds, events)
        return self._hub.stop_reason

    def mark(self, group: int, step: int, at: float, seconds: Mapping[str, float]) -> None:
        """Remember the time spent up to a checkpoint."""
        self._hub.mark(group, at, step, seconds)

    def leave(self, group: int, seconds: Mapping[str, float], ending: Ending) -> None:
        """Take in the end of the training function."""
        self._hub.leave(group, time.time(), seconds, ending)

    def fail(self, group: int, seconds: Mapping[str, float], failure: Failure) -> None:
        """Take in an exception of the user's; the first one is the cause."""
        self._hub.fail(group, time.time(), seconds, failure)

    def report(self, reported: Reported, events: Sequence[Event]) -> None:
        """Take in what the user's code reported."""
        self._hub.report(time.time(), reported, events)

    def hold(self, bucket: str, seconds: float) -> None:
        """Take in how long a user's own loop was held up by something."""
        self._hub.hold(bucket, seconds)

    def keep_passes(self, done: Mapping[str, int]) -> None:
        """Take in the passes that lie behind the report that rank 0 is about to make."""
        self._passes = dict(done)

    def passes(self) -> Mapping[str, int]:
        """Return the passes that lay behind the last report."""
        return self._passes

    def lose(self, message: str) -> None:
        """Take in that workers were lost, which start again."""
        self._hub.lose(time.time(), message)

    def end(self) -> None:
        """Take in the end of a program's training."""
        self._hub.end(time.time())

    def tell(self, event: Event) -> None:
        """Take in an event of somebody who is no worker."""
        self._hub.add([event])

    def stop(self, reason: str) -> None:
        """Ask the run to stop."""
        self._hub.stop_reason = reason

    def look(self) -> View:
        """Return the state and the events since the last look; one driver looks."""
        hub, now = self._hub, time.time()
        return View(
            now,
            hub.take(),
            hub.groups,
            hub.failure,
            hub.ending,
            hub.reported,
            hub.seconds(now),
        )


def start(
    plans: Mapping[str, DatasetPlan],
    limits: Limits,
    started: float,
    num_workers: int,
    name: str | None = None,
) -> Client:
    """Start the actor on this node and return its client; the caller keeps it alive.

    Args:
        plans: of the datasets that it feeds.
        limits: of Ray Data.
        started: when the driver's process began, seconds since 1970.
        num_workers: number of workers.
        name: under which other programs find it in NAMESPACE; None for nobody else.
    """
    node = ray.get_runtime_context().get_node_id()
    # Every rank may wait in a call for each dataset, while pushes and looks must still get through.
    concurrency = num_workers * (len(plans) + 1) + 8
    actor = ray.remote(Coordinator).options(
        num_cpus=0,
        max_concurrency=concurrency,
        label_selector={"ray.io/node-id": node},
        name=name,
        namespace=NAMESPACE if name else None,
    )
    handle = actor.remote(plans, limits, started)
    return Client(cast("ActorHandle[Coordinator]", handle))
