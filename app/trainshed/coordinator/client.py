"""The coordinator as everybody else calls it: an actor's handle with types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import ray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ray.actor import ActorHandle
    from ray.train import Result

    from trainshed.coordinator.actor import Coordinator, View
    from trainshed.coordinator.run_state import Failure, FunctionResult, Reported
    from trainshed.coordinator.stage_rates import Means
    from trainshed.data.loader.data_server import ExecutionLimits
    from trainshed.data.loader.disk_cache import DiskCache
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.stage_time import Spending
    from trainshed_api.progress import Event


class Client:
    """Calls the coordinator; calls that return nothing are not waited for unless said.

    Args:
        handle: of the actor.
    """

    def __init__(self, handle: ActorHandle[Coordinator]) -> None:
        self.handle = handle

    def load(self) -> None:
        """Let it import what feeding and training need."""
        self.handle.load.remote()

    def feed(
        self,
        plans: Mapping[str, DatasetPlan],
        limits: ExecutionLimits,
        means: Means,
        shelf: DiskCache | None = None,
    ) -> ray.ObjectRef[None]:
        """Let it begin to feed the workers, which is to be waited for before it trains."""
        return cast("ray.ObjectRef[None]", self.handle.feed.remote(plans, limits, means, shelf))

    def spend(self, spending: Spending) -> None:
        """Say what this process has spent on rows since it last said so."""
        self.handle.spend.remote(spending)

    def fit(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> Result:
        """Let Ray Train's controller train; waits for the end."""
        return cast("Result", ray.get(self.handle.fit.remote(arguments, environment)))

    def join(self, step: int) -> int:
        """Take in a worker group; return its number."""
        return cast("int", ray.get(self.handle.join.remote(step)))

    def push(
        self,
        group: int,
        seconds: Mapping[str, float],
        events: Sequence[Event],
        *,
        saves: bool,
        steps_begun: bool,
    ) -> str | None:
        """Say how it goes, and whether a stop writes a checkpoint; return why to stop, if so.

        steps_begun: whether the function has asked for a step.
        """
        return cast(
            "str | None",
            ray.get(self.handle.push.remote(group, seconds, events, saves, steps_begun)),
        )

    def wait(self, group: int, rank: int, step: int, world_size: int) -> bool:
        """Say that a rank waits for rows after a step; return whether all ranks stop there."""
        return cast("bool", ray.get(self.handle.wait.remote(group, rank, step, world_size)))

    def go_on(self, group: int, rank: int) -> bool:
        """Say that a rank has the rows that it waited for; return whether all ranks stop here."""
        return cast("bool", ray.get(self.handle.go_on.remote(group, rank)))

    def mark(self, group: int, step: int, at: float, seconds: Mapping[str, float]) -> None:
        """Remember the time spent up to a checkpoint."""
        self.handle.mark.remote(group, step, at, seconds)

    def leave(self, group: int, seconds: Mapping[str, float], ending: FunctionResult) -> None:
        """Say how the training function ended; waits until it is known."""
        ray.get(self.handle.leave.remote(group, seconds, ending))

    def fail(self, group: int, seconds: Mapping[str, float], failure: Failure) -> None:
        """Say what the user's function raised; waits until it is known."""
        ray.get(self.handle.fail.remote(group, seconds, failure))

    def begin(self) -> None:
        """Say that a program's workers begin."""
        self.handle.join.remote(0)

    def report(self, reported: Reported, events: Sequence[Event]) -> None:
        """Say what the user's code reported."""
        self.handle.report.remote(reported, events)

    def start_over(self) -> None:
        """Say that the function did not read its checkpoint; waits until that is known."""
        ray.get(self.handle.start_over.remote())

    def hold(self, bucket: str, seconds: float) -> None:
        """Say how long a user's own loop was held up by something."""
        self.handle.hold.remote(bucket, seconds)

    def keep_passes(self, done: Mapping[str, int]) -> None:
        """Say which passes lie behind the report that comes next; waits until it is known."""
        ray.get(self.handle.keep_passes.remote(done))

    def passes(self) -> Mapping[str, int]:
        """Return the passes that lay behind the last report."""
        return cast("Mapping[str, int]", ray.get(self.handle.passes.remote()))

    def place(self, hosts: Sequence[str]) -> None:
        """Say on which hosts the workers run."""
        self.handle.place.remote(hosts)

    def lose(self, message: str) -> None:
        """Say that workers were lost, which start again."""
        self.handle.lose.remote(message)

    def end(self) -> None:
        """Say that a program's training is over."""
        self.handle.end.remote()

    def tell(self, event: Event) -> None:
        """Add an event of somebody who is no worker."""
        self.handle.tell.remote(event)

    def stop(self, reason: str) -> None:
        """Ask the run to stop."""
        self.handle.stop.remote(reason)

    def look(self) -> View:
        """Return the state and the events since the last look."""
        return cast("View", ray.get(self.handle.look.remote()))
