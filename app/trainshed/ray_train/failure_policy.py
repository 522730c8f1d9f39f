"""Whose fault it is that a worker group ended, and whether it is tried again.

Light on purpose: Ray Train's controller imports this, and torch would cost it two seconds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.failure_handling.default import DefaultFailurePolicy

from trainshed.failures import RULES, as_world_error, classify, told
from trainshed.ray_train.report_relay import first_line
from trainshed.worker.user_failure import UserFailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.train.v2.api.config import FailureConfig
    from ray.train.v2.api.exceptions import TrainingFailedError

    from trainshed.coordinator.actor import Coordinator
    from trainshed.failures import Kind


class UsersErrorsAreFinal(DefaultFailurePolicy):
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
