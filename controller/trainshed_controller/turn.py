"""One look at one run: what all steps of its reconciliation are given. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_controller import status as states
from trainshed_controller.status import Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trainshed_api.status import ConditionType, TrainingRunStatus
    from trainshed_api.v1alpha1 import TrainingRun
    from trainshed_controller.model import Observed, RayJobView, RunView, Settings


# Of one look: each may take as long as the API server likes, and a look has an end.
_MOST_DELETIONS = 10


def to_delete(jobs: Sequence[RayJobView]) -> tuple[RayJobView, ...]:
    """Return those of these RayJobs that this look deletes; none that is being deleted."""
    return tuple(job for job in jobs if not job.deleting)[:_MOST_DELETIONS]


@dataclass(frozen=True)
class Turn:
    """One look at one run that is valid."""

    view: RunView
    run: TrainingRun
    seen: Observed
    settings: Settings
    now: datetime

    @property
    def stamp(self) -> Stamp:
        """Return when this is, and which generation it is about."""
        return Stamp(self.now, self.view.generation)

    def say(
        self,
        status: TrainingRunStatus,
        kind: ConditionType,
        reason: str,
        message: str = "",
        *,
        holds: bool,
    ) -> TrainingRunStatus:
        """Return the status with a condition about this moment."""
        return states.with_condition(status, kind, reason, message, holds=holds, stamp=self.stamp)


def failed(status: TrainingRunStatus, reason: str, message: str, stamp: Stamp) -> TrainingRunStatus:
    """Return the status of a run that failed and is not retried."""
    status = states.with_condition(status, "Failed", reason, message, holds=True, stamp=stamp)
    status = states.with_condition(status, "Progressing", reason, holds=False, stamp=stamp)
    status = states.with_phase(status, "Failed", stamp.now)
    return status.model_copy(update={"completion_time": stamp.now, "queue": None})


def suspended(turn: Turn, status: TrainingRunStatus) -> TrainingRunStatus:
    """Return the status of a run that is suspended, nothing of it running."""
    status = turn.say(status, "Suspended", "Suspended", "spec.suspend is true", holds=True)
    status = turn.say(status, "Progressing", "Suspended", holds=False)
    status = states.with_phase(status, "Suspended", turn.now)
    return status.model_copy(update={"queue": None})
