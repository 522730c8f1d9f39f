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
from trainshed_controller.asking import SILENT_SECONDS, is_heard
from trainshed_controller.pod_trouble import worst_trouble
from trainshed_controller.stalls import find_stall

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptOutcome, AttemptStatus
    from trainshed_api.v1alpha1 import TrainingRunSpec
    from trainshed_controller.model import Observed, PodView, RayJobView

# What follows may be a driver's own words: a number that is no exit code is none of Ray's.
_EXIT_CODE = re.compile(r"failed with exit code (-?[0-9]{1,9})(?![0-9])")
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


@dataclass(frozen=True)
class Ending:
    """How an attempt ended, and why."""

    outcome: AttemptOutcome
    reason: str
    message: str = ""
    exit_code: int | None = None
    node: str = ""
    logs: str = ""


@dataclass(frozen=True)
class Case:
    """One open attempt and all that is known of it."""

    attempt: AttemptStatus
    spec: TrainingRunSpec
    seen: Observed
    begun: datetime
    now: datetime

    @property
    def job(self) -> RayJobView | None:
        """Return its RayJob."""
        return self.seen.ray_job

    @property
    def last_word(self) -> Snapshot | None:
        """Return what its driver said at its end."""
        told = self.seen.snapshot
        return told if told and told.state == "Ended" else None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the driver, from itself or from Ray's message."""
        if self.last_word and self.last_word.exit_code is not None:
            return self.last_word.exit_code
        found = _EXIT_CODE.search(self.job.message) if self.job else None
        return int(found[1]) if found else None


def judge(case: Case) -> Ending | None:
    """Return how the attempt ended; None while it goes on."""
    return next((ending for check in CHECKS if (ending := check(case))), None)


def job_succeeded(case: Case) -> Ending | None:
    """Ray says SUCCEEDED, and nothing else counts as success."""
    if case.job is None or case.job.job_status != "SUCCEEDED":
        return None
    return Ending("Succeeded", "Succeeded", exit_code=names.EXIT_SUCCEEDED)


def never_accepted(case: Case) -> Ending | None:
    """KubeRay refuses the RayJob: a dead end that nothing leaves."""
    if case.job is None or case.job.deployment_status != "ValidationFailed":
        return None
    return Ending("Invalid", "RayJobRefused", case.job.message or "KubeRay refused the RayJob")


def stopped_as_told(case: Case) -> Ending | None:
    """The attempt was stopped, and its job ended without an error."""
    if case.attempt.stop_time is None:
        return None
    reason = case.attempt.stop_reason
    if case.job is None or case.job.deleting:
        return Ending("Stopped", reason, "stopped at the end of its grace period")
    ended = case.job.is_over and (
        case.job.job_status == "STOPPED"
        or case.exit_code in (names.EXIT_TERMINATED, names.EXIT_INTERRUPTED)
        or (case.last_word is not None and case.last_word.outcome == names.STOPPED)
    )
    if not ended:
        return None
    message = case.last_word.message if case.last_word else "stopped"
    return Ending("Stopped", reason, message, case.exit_code)


def stopped_by_others(case: Case) -> Ending | None:
    """Somebody stopped the job through Ray: not ours to undo."""
    if case.job is None or case.job.job_status != "STOPPED":
        return None
    return Ending(
        "StoppedOutside",
        "StoppedOutside",
        "the job was stopped through Ray, and not by Trainshed; it is not started again",
        case.exit_code,
    )


def memory_ran_out(case: Case) -> Ending | None:
    """The head's or a worker's memory ran out, and the job failed or its head is gone."""
    if case.last_word and case.last_word.cause in (names.APPLICATION, names.INVALID):
        return None
    mine = [pod for pod in case.seen.pods if _is_of_attempt(case, pod)]
    killed = next((pod for pod in mine if pod.ended == "OOMKilled"), None)
    failed = case.job is not None and case.job.job_status == "FAILED"
    if killed and (failed or killed.is_head):
        message = f"Pod {killed.name} on node {killed.node} ran out of memory"
        return Ending("OutOfMemory", "OutOfMemory", message, killed.exit_code, killed.node)
    told = case.last_word.cause if case.last_word else None
    if failed and (
        told == names.OUT_OF_MEMORY
        or (told is None and case.job and _RAY_OUT_OF_MEMORY in case.job.message)
    ):
        return Ending("OutOfMemory", "OutOfMemory", _failure_text(case), case.exit_code)
    return None


def _is_of_attempt(case: Case, pod: PodView) -> bool:
    """Return whether the attempt's job or workers run in a Pod: others may share the cluster."""
    if pod.is_head:
        return case.attempt.head_identity.startswith(f"{pod.uid}/")
    if pod.cluster.startswith(f"{case.attempt.ray_job}-"):
        return True
    return case.seen.snapshot is not None and pod.name in case.seen.snapshot.hosts


def program_failed(case: Case) -> Ending | None:
    """The driver ended with an error."""
    if case.job is None or case.job.job_status != "FAILED":
        return None
    word = case.last_word
    text, logs = _failure_text(case), word.traceback if word else case.job.message
    code = case.exit_code
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


def environment_failed(case: Case) -> Ending | None:
    """The job did not come to its driver: what it was to bring along cannot be had."""
    if case.job is None or case.job.job_status != "FAILED" or case.exit_code is not None:
        return None
    text = _failure_text(case)
    if _NO_ENVIRONMENT not in text:
        return None
    return Ending("Application", "RuntimeEnvFailed", text)


def head_lost(case: Case) -> Ending | None:
    """The head is another one than that the job was given to, or is gone."""
    known, head = case.attempt.head_identity, case.seen.head
    if not known or (head is not None and head.identity == known):
        return None
    seen = (*case.seen.pods, *case.seen.gone)
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


def kuberay_gave_up(case: Case) -> Ending | None:
    """KubeRay ended the RayJob without a word from Ray that its job ended."""
    if case.job is None or case.job.deployment_status != "Failed":
        return None
    if is_heard(case.seen) and case.attempt.stop_time is None:
        # Its dashboard was silent for too long (RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS), not it.
        return None
    reason, text = case.job.reason or "RayJobFailed", case.job.message or "KubeRay gave up the job"
    if reason == "PreRunningDeadlineExceeded":
        return Ending("Infrastructure", "ProvisioningDeadlineExceeded", text)
    return Ending("Infrastructure", reason, text)


def suspended_by_others(case: Case) -> Ending | None:
    """A RayJob that had started is suspended, as Kueue does to preempt it."""
    if case.job is None or case.attempt.start_time is None or not case.job.suspended:
        return None
    return Ending("Preempted", "Preempted", "the RayJob was suspended: preempted")


def ray_job_gone(case: Case) -> Ending | None:
    """The RayJob is gone or going although the attempt had started."""
    is_there = case.job is not None and not case.job.deleting
    if case.attempt.start_time is None or is_there:
        return None
    return Ending("Infrastructure", "RayJobDeleted", "the RayJob was deleted by another client")


def never_started(case: Case) -> Ending | None:
    """The program did not start in time."""
    limit = case.spec.provisioning_deadline_seconds
    waits_for_kueue = case.job is not None and case.job.suspended
    if not limit or waits_for_kueue or case.seen.refusal is not None:
        return None
    if case.attempt.start_time is not None:
        return _never_placed(case, case.attempt.start_time)
    if (case.now - case.begun).total_seconds() < limit:
        return None
    trouble = worst_trouble(case.seen.pods, case.seen.cluster)
    message = f"not started within provisioningDeadlineSeconds ({limit})"
    message += f": {trouble.message}" if trouble else ""
    return Ending("Infrastructure", "ProvisioningDeadlineExceeded", message)


def _never_placed(case: Case, started: datetime) -> Ending | None:
    """Return the end of an attempt whose driver waits for its first workers for too long."""
    told, limit = case.seen.snapshot, case.spec.first_step_deadline_seconds
    if told is None or told.state != "Starting" or told.hosts or case.attempt.stop_time:
        return None
    is_silent = case.seen.heard.silent_seconds >= SILENT_SECONDS  # it may have begun since
    if not limit or is_silent or (case.now - started).total_seconds() < limit:
        return None
    message = f"no worker was placed within firstStepDeadlineSeconds ({limit})"
    message += f": {told.waits_for}" if told.waits_for else ""
    return Ending("Infrastructure", "ProvisioningDeadlineExceeded", message)


def stalled(case: Case) -> Ending | None:
    """No first or no further step for too long."""
    if case.attempt.stop_time is not None:
        return None
    message = find_stall(case.spec, case.seen, case.attempt.number)
    return Ending("Infrastructure", "Stalled", message) if message else None


CHECKS: tuple[Callable[[Case], Ending | None], ...] = (
    job_succeeded,  # before all else: what Ray saw end well has ended well
    never_accepted,
    stopped_as_told,  # before failures: a stop may look like one
    stopped_by_others,
    memory_ran_out,  # before the program's failure, which it also looks like
    environment_failed,
    program_failed,
    head_lost,  # before what KubeRay says of it, which comes minutes later
    kuberay_gave_up,
    suspended_by_others,
    ray_job_gone,
    never_started,
    stalled,
)


def _failure_text(case: Case) -> str:
    """Return the cause as the driver says it, else the end of Ray's message without colours."""
    word = case.last_word
    if word and (word.message or word.traceback):
        text = f"{word.message}\n{word.traceback}".strip()
    else:
        text = _COLOUR.sub("", case.job.message if case.job else "")
        lines = [line for line in text.splitlines() if not line.startswith(names.SNAPSHOT_LINE)]
        text = "\n".join(lines).strip()
    return text if len(text) <= _LONGEST_MESSAGE else "..." + text[-_LONGEST_MESSAGE:]
