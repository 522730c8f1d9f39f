"""Whose fault it is that a worker group ended, and whether it is tried again.

Light on purpose: Ray Train's controller imports this, and torch would cost it two seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.failure_handling.default import DefaultFailurePolicy

from trainshed.runtime.relay import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.train.v2.api.config import FailureConfig
    from ray.train.v2.api.exceptions import TrainingFailedError

    from trainshed.runtime.client import Client


class UserFailureError(Exception):
    """The user's function failed: never tried again. The message has its error's type and text."""


class PeerLostError(Exception):
    """A collective failed because another worker is gone: to be tried again."""


class UsersErrorsAreFinal(DefaultFailurePolicy):
    """Retries lost workers, never what the user's function raised: it would only raise again."""

    def __init__(self, failure_config: FailureConfig, coordinator: Client) -> None:
        super().__init__(failure_config)
        self._coordinator = coordinator

    def make_decision(self, training_failed_error: TrainingFailedError) -> FailureDecision:
        """Return RAISE for an error of the user's, Ray's own decision for all else."""
        failures: Mapping[int, BaseException] = getattr(
            training_failed_error, "worker_failures", {}
        )
        if any(is_users_failure(error) for error in failures.values()):
            return FailureDecision.RAISE
        decision = super().make_decision(training_failed_error)
        if decision == FailureDecision.RETRY and failures:
            lost = {r: e for r, e in failures.items() if not _is(PeerLostError, e)} or failures
            ranks = ", ".join(str(rank) for rank in sorted(lost))
            message = f"lost worker {ranks}: {first_line(next(iter(lost.values())))}"
            self._coordinator.lose(message)
        return decision


def is_users_failure(error: BaseException) -> bool:
    """Say whether a worker's failure is what the user's function raised."""
    return _is(UserFailureError, error)


def _is(kind: type[Exception], error: BaseException) -> bool:
    # Ray hands a worker's error over wrapped, in a type that it makes for the occasion.
    return kind.__name__ in f"{type(error).__name__} {error}"
