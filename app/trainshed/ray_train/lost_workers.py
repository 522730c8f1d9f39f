"""Which lost workers are replaced, and what they must not hold up: those that take their place.

Ray knows that a worker is lost within seconds, but that its node is only after half a minute, when
the node has missed its health checks. Whatever asks the node in between waits for an answer.

The workers that are started again go on from the newest checkpoint (worker/checkpoint_saver.py).

Light on purpose: Ray Train's controller imports this, and torch would cost it two seconds.

Private to Ray 2.60, the pinned release; tests/app/ray_train/test_lost.py holds the seams.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ray import cloudpickle
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.failure_handling.default import DefaultFailurePolicy
from ray.train.v2._internal.execution.worker_group import state

from trainshed.failures import RULES, as_world_error, classify, told
from trainshed.ray_train.report_relay import first_line
from trainshed.worker.user_failure import UserFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ray.train.v2._internal.execution.worker_group import WorkerGroup, WorkerGroupContext
    from ray.train.v2._internal.execution.worker_group.poll import WorkerGroupPollStatus
    from ray.train.v2.api.config import FailureConfig
    from ray.train.v2.api.exceptions import TrainingFailedError

    from trainshed.coordinator.actor import Coordinator
    from trainshed.failures import Kind

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


class RestartPolicy(DefaultFailurePolicy):
    """Retries lost workers, never what the user's function raised: it would only raise again."""

    def __init__(self, failure_config: FailureConfig, coordinator: Coordinator) -> None:
        super().__init__(failure_config)
        self._coordinator = coordinator
        self._restarts: Counter[Kind] = Counter()

    def make_decision(self, training_failed_error: TrainingFailedError) -> FailureDecision:
        """Return RAISE for the user's and what came too often, Ray's own decision for all else."""
        failures: Mapping[int, BaseException] = getattr(
            training_failed_error, "worker_failures", {}
        )
        if any(is_users_failure(error) for error in failures.values()):
            return FailureDecision.RAISE
        kind = classify(training_failed_error)
        if kind and self._is_spent(kind):
            return FailureDecision.RAISE
        decision = super().make_decision(training_failed_error)
        if decision == FailureDecision.RETRY and failures:
            lost = {r: e for r, e in failures.items() if classify(e) != "peer"} or failures
            ranks = ", ".join(str(rank) for rank in sorted(lost))
            self._coordinator.lose(f"lost worker {ranks}: {_words(next(iter(lost.values())))}")
        return decision

    def _is_spent(self, kind: Kind) -> bool:
        self._restarts[kind] += 1
        most = RULES[kind].restarts
        return most is not None and self._restarts[kind] > most


def is_users_failure(error: BaseException) -> bool:
    """Say whether a worker's failure is what the user's function raised."""
    # Ray hands a worker's error over wrapped, in a type that it makes for the occasion.
    return UserFailureError.__name__ in f"{type(error).__name__} {error}"


def _words(error: BaseException) -> str:
    world = as_world_error(error)
    return told(world.kind, str(world)) if world else first_line(error)
