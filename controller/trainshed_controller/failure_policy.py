"""What follows the end of an attempt: the user's rules, the limits on failures, pauses. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_controller.judge import TERMINATED

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.failure import FailurePolicySpec
    from trainshed_api.status import AttemptStatus, FailureCounts, TrainingRunStatus
    from trainshed_api.v1alpha1 import TrainingRunSpec
    from trainshed_controller.judge import Ending

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10, 300
# An attempt that trained for so long shows that the failures before it are over.
_HEALTHY_SECONDS = 600.0


def apply_rules(ending: Ending, policy: FailurePolicySpec) -> tuple[Ending, bool]:
    """Return the ending as the user's rules see it, and whether they forbid a further attempt."""
    is_failure = ending.outcome in ("Application", "Infrastructure", "OutOfMemory")
    if not is_failure and ending.reason != TERMINATED:
        return ending, False
    for rule in policy.rules:
        if rule.exit_codes and ending.exit_code not in rule.exit_codes:
            continue
        if rule.log_pattern and not contains(f"{ending.message}\n{ending.logs}", rule.log_pattern):
            continue
        if rule.action == "Fail":
            return ending, True
        return replace(ending, outcome="Infrastructure"), False
    return ending, False


def contains(text: str, pattern: str) -> bool:
    """Say whether the text has the pattern's parts in this order; no such search can hang."""
    position = 0
    for part in pattern.split("*"):
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def final_failure(
    ending: Ending, spec: TrainingRunSpec, failures: FailureCounts
) -> tuple[str, str] | None:
    """Return why no further attempt follows; None where one may.

    failures: of the run, this one among them.
    """
    policy = spec.failure_policy
    match ending.outcome:
        case "Invalid" | "StoppedOutside":
            return ending.reason, ending.message
        case "Stopped" if ending.reason == "DeadlineExceeded":
            limit = spec.active_deadline_seconds
            return ending.reason, f"activeDeadlineSeconds ({limit}) has passed"
        case "Application" | "OutOfMemory":
            # Memory may run out by chance once; after that it is the program's own fault.
            counted = failures.application + max(0, failures.out_of_memory - 1)
            is_first = ending.outcome == "OutOfMemory" and failures.out_of_memory == 1
            if not is_first and counted > policy.max_application_failures:
                return ending.reason, ending.message
        case "Infrastructure" if failures.infrastructure > policy.max_infrastructure_failures:
            limit = policy.max_infrastructure_failures
            message = f"maxInfrastructureFailures ({limit}) is used up: {ending.message}"
            return ending.reason, message
    return None


def pause_seconds_left(status: TrainingRunStatus, now: datetime) -> float:
    """Return for how long no attempt follows the one that failed."""
    last = status.attempts[-1] if status.attempts else None
    if last is None or last.end_time is None or last.outcome == "Stopped":
        return 0.0
    pause = last.end_time + timedelta(seconds=_pause_seconds(status))
    return max(0.0, (pause - now).total_seconds())


def _pause_seconds(status: TrainingRunStatus) -> float:
    """Return the pause before the next attempt: none after the first failure, then doubling.

    Only failures since the last attempt that trained for a while count: a run that loses its head
    once a week is as healthy as one that loses it for the first time.
    """
    if status.attempts[-1].outcome == "Preempted":
        counted = {"Preempted"}
    else:
        counted = {"Application", "Infrastructure", "OutOfMemory"}
    failed = 0
    for attempt in reversed(status.attempts):
        failed += attempt.outcome in counted
        if _trained_seconds(attempt) >= _HEALTHY_SECONDS:
            break
    if failed <= 1:
        return 0.0
    return float(min(_FIRST_PAUSE_SECONDS * 2 ** min(failed - 2, 10), _LONGEST_PAUSE_SECONDS))


def _trained_seconds(attempt: AttemptStatus) -> float:
    """Return how long the attempt made progress, without its start, lost steps and its end."""
    time = attempt.time
    return time.training + time.waiting_for_data + time.evaluating + time.checkpointing
