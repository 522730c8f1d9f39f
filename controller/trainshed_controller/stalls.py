"""Whether training does not go on, and what to say of it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed_api.v1alpha1 import TrainingRunSpec
    from trainshed_controller.model import Observed


def find_stall(spec: TrainingRunSpec, seen: Observed, attempt: int) -> str | None:
    """Return why an attempt counts as stalled, and what to do; None while it goes on.

    Silence is no stall: only what this process heard counts, by its own clock.
    """
    limit = spec.stall_deadline_seconds
    if limit and seen.heard.still_seconds >= limit:
        return f"no step within stallDeadlineSeconds ({limit})"
    limit = spec.first_step_deadline_seconds
    if not limit or seen.heard.first_step_seconds < limit:
        return None
    waits = f": {seen.snapshot.waits_for}" if seen.snapshot and seen.snapshot.waits_for else ""
    return (
        f"no first step within firstStepDeadlineSeconds ({limit}){waits}. Look at "
        f"attempts/{attempt}/driver.log and workers/RANK.log in the run's folder for "
        "what the workers wait for; where the first rows take longer, raise "
        "spec.firstStepDeadlineSeconds"
    )
