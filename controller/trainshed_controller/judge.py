"""Whether an attempt is at its end, and how it ended: checks in order, the first that hits decides.

Evidence in order of trust: Ray's word on the job, the driver's last snapshot, how Pods ended, the
RayJob. A snapshot explains a failure; it never turns one into a success. Pure.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api import names
from trainshed_controller.model import SILENT_SECONDS, worst_trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptOutcome
    from trainshed_controller.facts import Facts
    from trainshed_controller.model import PodView

# Exit codes after a signal from outside, as Python (-9) and as shells (137) have them. Those of a
# crash, such as SIGSEGV, are the program's.
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_KILLED = frozenset(code for each in _SIGNALS for code in (-each.value, 128 + each.value))
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# How Ray says that its memory monitor killed a worker.
_RAY_OUT_OF_MEMORY = "OutOfMemoryError"
# How Ray says that packages or the working directory of a job cannot be had.
_NO_ENVIRONMENT = "runtime_env"
_LONGEST_MESSAGE = 4000
# Reason of an attempt that a signal ended after a checkpoint.
TERMINATED = "Terminated"


@dataclass(frozen=True)
class Ending:
    """How an attempt ended, and why."""

    outcome: AttemptOutcome
    reason: str
    message: str = ""
    exit_code: int | None = None
    node: str = ""
    logs: str = ""


def judge(facts: Facts) -> Ending | None:
    """Return how the attempt ended; None while it goes on."""
    return next((ending for check in CHECKS if (ending := check(facts))), None)


def job_succeeded(facts: Facts) -> Ending | None:
    """Ray says SUCCEEDED, and nothing else counts as success."""
    if facts.job is None or facts.job.job_status != "SUCCEEDED":
        return None
    return Ending("Succeeded", "Succeeded", exit_code=names.EXIT_SUCCEEDED)


def never_accepted(facts: Facts) -> Ending | None:
    """KubeRay refuses the RayJob: a dead end that nothing leaves."""
    if facts.job is None or facts.job.deployment_status != "ValidationFailed":
        return None
    return Ending("Invalid", "RayJobRefused", facts.job.message or "KubeRay refused the RayJob")


def stopped_as_told(facts: Facts) -> Ending | None:
    """The attempt was stopped, and its job ended without an error."""
    if facts.attempt.stop_time is None:
        return None
    reason = facts.attempt.stop_reason
    if facts.job is None or facts.job.deleting:
        return Ending("Stopped", reason, "stopped at the end of its grace period")
    ended = facts.job.is_over and (
        facts.job.job_status == "STOPPED"
        or facts.exit_code in (names.EXIT_TERMINATED, names.EXIT_INTERRUPTED)
        or (facts.last_word is not None and facts.last_word.outcome == names.STOPPED)
    )
    if not ended:
        return None
    message = facts.last_word.message if facts.last_word else "stopped"
    return Ending("Stopped", reason, message, facts.exit_code)


def stopped_by_others(facts: Facts) -> Ending | None:
    """Somebody stopped the job through Ray: not ours to undo."""
    if facts.job is None or facts.job.job_status != "STOPPED":
        return None
    return Ending(
        "StoppedOutside",
        "StoppedOutside",
        "the job was stopped through Ray, and not by Trainshed; it is not started again",
        facts.exit_code,
    )


def memory_ran_out(facts: Facts) -> Ending | None:
    """The head's or a worker's memory ran out, and the job failed or its head is gone."""
    if facts.last_word and facts.last_word.cause in (names.APPLICATION, names.INVALID):
        return None
    mine = [pod for pod in facts.seen.pods if _is_of_attempt(facts, pod)]
    killed = next((pod for pod in mine if pod.ended == "OOMKilled"), None)
    failed = facts.job is not None and facts.job.job_status == "FAILED"
    if killed and (failed or killed.is_head):
        message, code = killed.how_ended, killed.exit_code
        return Ending("OutOfMemory", "OutOfMemory", message, code, killed.node)
    told = facts.last_word.cause if facts.last_word else None
    if failed and (
        told == names.OUT_OF_MEMORY
        or (told is None and facts.job and _RAY_OUT_OF_MEMORY in facts.job.message)
    ):
        return Ending("OutOfMemory", "OutOfMemory", _failure_text(facts), facts.exit_code)
    return None


def _is_of_attempt(facts: Facts, pod: PodView) -> bool:
    """Return whether the attempt's job or workers run in a Pod: others may share the cluster."""
    if pod.is_head:
        return facts.attempt.head_identity.startswith(f"{pod.uid}/")
    if pod.cluster.startswith(f"{facts.attempt.ray_job}-"):
        return True
    return facts.seen.snapshot is not None and pod.name in facts.seen.snapshot.hosts


def terminated_after_checkpoint(facts: Facts) -> Ending | None:
    """SIGTERM ended the driver, and the attempt has a new checkpoint: that uses up no retry.

    One without a new checkpoint counts, so a driver that is always terminated at once is given up.
    """
    word = facts.last_word
    if facts.job is None or facts.job.job_status != "FAILED" or word is None:
        return None
    if (
        not _has_new_checkpoint(word)
        or word.outcome != names.STOPPED
        or facts.exit_code != names.EXIT_TERMINATED
    ):
        return None
    message = "SIGTERM ended the driver after the attempt had written a checkpoint"
    return Ending("Preempted", TERMINATED, message, facts.exit_code)


def _has_new_checkpoint(word: Snapshot) -> bool:
    """Return whether the attempt saved more than it had resumed from."""
    saved, resumed = word.checkpoint, word.resumed_from
    if saved is None or resumed is None:
        return saved is not None
    if saved.step is not None and resumed.step is not None and saved.step <= resumed.step:
        return False  # the restored step, saved again
    return saved.path != resumed.checkpoint


def program_failed(facts: Facts) -> Ending | None:
    """The driver ended with an error."""
    if facts.job is None or facts.job.job_status != "FAILED":
        return None
    word = facts.last_word
    text, logs = _failure_text(facts), word.traceback if word else facts.job.message
    code = facts.exit_code
    if word and word.cause == names.INFRASTRUCTURE:
        return Ending("Infrastructure", "InfrastructureFailed", text, code, logs=logs)
    if code == names.EXIT_TRY_AGAIN:
        return Ending("Infrastructure", "AttemptTaken", text, code, logs=logs)
    if code == names.EXIT_INVALID or (word and word.cause == names.INVALID):
        return Ending("Invalid", "Invalid", text, code, logs=logs)
    if code is None or code in _KILLED:
        # Nothing of the program's ends it so: its node was drained, or its process was killed.
        return Ending("Infrastructure", "DriverKilled", text, code, logs=logs)
    return Ending("Application", "ApplicationFailed", text, code, logs=logs)


def environment_failed(facts: Facts) -> Ending | None:
    """The job did not come to its driver: what it was to bring along cannot be had."""
    if facts.job is None or facts.job.job_status != "FAILED" or facts.exit_code is not None:
        return None
    text = _failure_text(facts)
    if _NO_ENVIRONMENT not in text:
        return None
    return Ending("Application", "RuntimeEnvFailed", text)


def head_lost(facts: Facts) -> Ending | None:
    """The head is another one than that the job was given to, or is gone."""
    known, head = facts.attempt.head_identity, facts.seen.head
    if not known or (head is not None and head.identity == known):
        return None
    seen = (*facts.seen.pods, *facts.seen.gone)
    old = next((pod for pod in seen if known.startswith(f"{pod.uid}/")), None)
    if old is not None and old.preempted:
        message = f"head Pod {old.name} was evicted from node {old.node}"
        return Ending("Preempted", "Preempted", message, node=old.node)
    if old is not None and old.evicted:
        message = f"head Pod {old.name} was evicted from node {old.node}: {old.evicted}"
        return Ending("Infrastructure", "HeadEvicted", message, node=old.node)
    where = f": Pod {old.name} on node {old.node}" if old else ""
    detail = f": {old.ended}, exit code {old.exit_code}" if old and old.ended else ""
    message = f"the Ray head that had the job is gone{where}{detail}"
    return Ending("Infrastructure", "HeadLost", message, node=old.node if old else "")


def kuberay_gave_up(facts: Facts) -> Ending | None:
    """KubeRay ended the RayJob without a word from Ray that its job ended."""
    if facts.job is None or facts.job.deployment_status != "Failed":
        return None
    if facts.seen.is_heard and facts.attempt.stop_time is None:
        # Its dashboard was silent for too long (RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS), not it.
        return None
    reason = facts.job.reason or "RayJobFailed"
    text = facts.job.message or "KubeRay gave up the job"
    if reason == "PreRunningDeadlineExceeded":
        return Ending("Infrastructure", "ProvisioningDeadlineExceeded", text)
    return Ending("Infrastructure", reason, text)


def suspended_by_others(facts: Facts) -> Ending | None:
    """A RayJob that had started is suspended, as Kueue does to preempt it."""
    if facts.job is None or facts.attempt.start_time is None or not facts.job.suspended:
        return None
    return Ending("Preempted", "Preempted", "the RayJob was suspended: preempted")


def ray_job_gone(facts: Facts) -> Ending | None:
    """The RayJob is gone or going although the attempt had started."""
    is_there = facts.job is not None and not facts.job.deleting
    if facts.attempt.start_time is None or is_there:
        return None
    return Ending("Infrastructure", "RayJobDeleted", "the RayJob was deleted by another client")


def never_started(facts: Facts) -> Ending | None:
    """The program did not start in time."""
    limit = facts.spec.provisioning_deadline_seconds
    waits_for_kueue = facts.job is not None and facts.job.suspended
    if not limit or waits_for_kueue or facts.seen.refusal is not None:
        return None
    if facts.attempt.start_time is not None:
        return _never_placed(facts, facts.attempt.start_time)
    if facts.provisioned_seconds < limit:
        return None
    trouble = worst_trouble(facts.seen.pods, facts.seen.cluster)
    message = f"not started within provisioningDeadlineSeconds ({limit})"
    message += f": {trouble.message}" if trouble else ""
    return Ending("Infrastructure", "ProvisioningDeadlineExceeded", message)


def _never_placed(facts: Facts, started: datetime) -> Ending | None:
    """Return the end of an attempt whose driver waits for its first workers for too long."""
    told, limit = facts.seen.snapshot, facts.spec.first_step_deadline_seconds
    if told is None or told.state != "Starting" or told.hosts or facts.attempt.stop_time:
        return None
    is_silent = facts.seen.heard.silent_seconds >= SILENT_SECONDS  # it may have begun since
    if not limit or is_silent or (facts.now - started).total_seconds() < limit:
        return None
    message = f"no worker was placed within firstStepDeadlineSeconds ({limit})"
    message += f": {told.waits_for}" if told.waits_for else ""
    return Ending("Infrastructure", "ProvisioningDeadlineExceeded", message)


def stalled(facts: Facts) -> Ending | None:
    """No first or no further step for too long; silence is none, and only this clock counts."""
    heard, spec = facts.seen.heard, facts.spec
    limit, first = spec.stall_deadline_seconds, spec.first_step_deadline_seconds
    if facts.attempt.stop_time is not None:
        return None
    if limit and heard.still_seconds >= limit:
        message = f"no step within stallDeadlineSeconds ({limit})"
    elif first and heard.first_step_seconds >= first:
        waits_for = facts.snapshot.waits_for if facts.snapshot else ""
        message = (
            f"no first step within firstStepDeadlineSeconds ({first})"
            f"{waits_for and f': {waits_for}'}. Look at "
            f"attempts/{facts.attempt.number}/driver.log and workers/RANK.log in the run's folder "
            "for what the workers wait for; where the first rows take longer, raise "
            "spec.firstStepDeadlineSeconds"
        )
    else:
        return None
    return Ending("Infrastructure", "Stalled", message)


CHECKS: tuple[Callable[[Facts], Ending | None], ...] = (
    job_succeeded,  # before all else: what Ray saw end well has ended well
    never_accepted,
    stopped_as_told,  # before failures: a stop may look like one
    stopped_by_others,
    memory_ran_out,  # before the program's failure, which it also looks like
    environment_failed,
    terminated_after_checkpoint,
    program_failed,
    head_lost,  # before what KubeRay says of it, which comes minutes later
    kuberay_gave_up,
    suspended_by_others,
    ray_job_gone,
    never_started,
    stalled,
)


def _failure_text(facts: Facts) -> str:
    """Return the cause as the driver says it, else the end of Ray's message without colours."""
    word = facts.last_word
    if word and (word.message or word.traceback):
        text = f"{word.message}\n{word.traceback}".strip()
    else:
        text = _COLOUR.sub("", facts.job.message if facts.job else "")
        lines = [line for line in text.splitlines() if not line.startswith(names.SNAPSHOT_LINE)]
        text = "\n".join(lines).strip()
    return text if len(text) <= _LONGEST_MESSAGE else "..." + text[-_LONGEST_MESSAGE:]
