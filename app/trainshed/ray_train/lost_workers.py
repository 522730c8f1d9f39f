"""What lost workers must not hold up: those that take their place.

Ray knows that a worker is lost within seconds, but that its node is only after half a minute, when
the node has missed its health checks. Whatever asks the node in between waits for an answer.

Private to Ray 2.60, the pinned release; tests/app/ray_train/test_lost.py holds the seams.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ray import cloudpickle
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.worker_group import state

if TYPE_CHECKING:
    from collections.abc import Callable

    from ray.train.v2._internal.execution.worker_group import WorkerGroup, WorkerGroupContext
    from ray.train.v2._internal.execution.worker_group.poll import WorkerGroupPollStatus

    from trainshed.coordinator.actor import Coordinator

# Who lives says goodbye in milliseconds; Ray Train gives five seconds to everybody.
SECONDS_TO_LEAVE = 0.5

_shut_down = state._shutdown_workers


class SkipLostWorkers(WorkerGroupCallback):
    """Ends a group that has lost workers without waiting for their goodbye."""

    def after_worker_group_poll_status(self, worker_group_status: WorkerGroupPollStatus) -> None:
        """Wait less for this group where workers have failed."""
        if worker_group_status.errors:
            state._shutdown_workers = partial(_shut_down, patience_s=SECONDS_TO_LEAVE)

    def after_worker_group_shutdown(
        self,
        worker_group_context: WorkerGroupContext,  # noqa: ARG002 - Ray's signature
    ) -> None:
        """Wait as ever for the next one."""
        state._shutdown_workers = _shut_down


@dataclass(eq=False)
class TellHosts(WorkerGroupCallback):
    """Says on which hosts a group of workers runs, before it does anything."""

    coordinator: Coordinator

    def after_worker_group_start(self, worker_group: WorkerGroup) -> None:
        """Say it once all of its actors are there."""
        hosts = {worker.metadata.hostname for worker in worker_group.get_workers()}
        self.coordinator.place(sorted(hosts))


@dataclass(frozen=True)
class FunctionByValue:
    """Takes the place of Ray Train's reference to the training function.

    What a reference refers to has a copy on each node that ran it. New workers ask one of these
    nodes, and if that is the lost one, the next after ten seconds.
    """

    payload: bytes

    @classmethod
    def of(cls, function: Callable[[], None]) -> FunctionByValue:
        """Return it with a function in it."""
        return cls(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]

    def get(self) -> Callable[[], None]:
        """Return the function."""
        function: Callable[[], None] = cloudpickle.loads(self.payload)
        return function
