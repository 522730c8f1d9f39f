"""What is done about an attempt that is at its end, and what follows it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed_controller import status as states
from trainshed_controller.failure_rules import apply_rules
from trainshed_controller.model import Plan
from trainshed_controller.release import release_reason, released
from trainshed_controller.turn import failed, suspended

if TYPE_CHECKING:
    from trainshed_api.status import AttemptStatus, TrainingRunStatus
    from trainshed_controller.judge import Ending
    from trainshed_controller.turn import Turn

_SOON_SECONDS = 2.0


def finish(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus, ending: Ending) -> Plan:
    """Write the end down, counters and what follows in the same status."""
    if status.phase == "Restarting":
        # Its workers had not begun again: that time is the driver's to tell, not the next wait's.
        status = states.with_phase(status, "Running", turn.now)
    policy = turn.run.spec.failure_policy
    ending, forbidden = apply_rules(ending, policy)
    status = states.ended(status, attempt, ending, turn.now)
    closed = status.attempts[-1]
    if reason := release_reason(closed, turn.seen, turn.run.spec.grace_period_seconds, turn.now):
        status = released(status, closed, reason, turn.now)
    status = turn.say(status, "Admitted", "AttemptEnded", holds=False)
    if ending.outcome == "Succeeded":
        return Plan(_complete(turn, status))
    failure = _final_failure(turn, status, ending, forbidden=forbidden)
    if failure:
        reason, message = failure
        plan = Plan(failed(status, reason, message, turn.stamp))
    elif ending.outcome == "Stopped":
        plan = Plan(suspended(turn, status))
    else:
        status = states.with_phase(status, "Restarting", turn.now)
        status = turn.say(status, "Progressing", ending.reason, ending.message, holds=False)
        plan = Plan(status, again_after=_SOON_SECONDS)
    job = turn.seen.ray_job
    keep = job is None or job.deleting or (failure is not None and job.is_over)
    # A failed RayJob stays for inspection; one that may still run does not.
    return plan if keep or job is None else replace(plan, delete_jobs=(job,))


def _final_failure(
    turn: Turn, status: TrainingRunStatus, ending: Ending, *, forbidden: bool
) -> tuple[str, str] | None:
    """Return why no further attempt follows; None where one may."""
    policy, failures = turn.run.spec.failure_policy, status.failures
    text = ending.message
    if forbidden:
        return "FailurePolicy", text
    match ending.outcome:
        case "Invalid" | "StoppedOutside":
            return ending.reason, text
        case "Stopped" if ending.reason == "DeadlineExceeded":
            limit = turn.run.spec.active_deadline_seconds
            return ending.reason, f"activeDeadlineSeconds ({limit}) has passed"
        case "Application" | "OutOfMemory":
            # Memory may run out by chance once; after that it is the program's own fault.
            counted = failures.application + max(0, failures.out_of_memory - 1)
            is_first = ending.outcome == "OutOfMemory" and failures.out_of_memory == 1
            if not is_first and counted > policy.max_application_failures:
                return ending.reason, text
        case "Infrastructure" if failures.infrastructure > policy.max_infrastructure_failures:
            limit = policy.max_infrastructure_failures
            return ending.reason, f"maxInfrastructureFailures ({limit}) is used up: {text}"
        case _:
            pass
    return None


def _complete(turn: Turn, status: TrainingRunStatus) -> TrainingRunStatus:
    status = turn.say(status, "Complete", "Succeeded", holds=True)
    status = turn.say(status, "Progressing", "Succeeded", holds=False)
    status = states.with_phase(status, "Succeeded", turn.now)
    return status.model_copy(update={"completion_time": turn.now, "queue": None})
