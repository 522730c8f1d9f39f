"""Which capacity of a shared RayCluster an attempt holds, and until when. Pure.

One rule for all: an attempt is released when its RayJob is gone or over, and Ray, a new head or a
time-out says that its driver ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.status import AttemptStatus, TrainingRunStatus
    from trainshed_controller.model import Observed, RayJobView

TIMED_OUT = "TimedOut"
# How long after its grace a driver counts that nobody can be asked for; the claim of the next
# attempt keeps it from doing harm after that.
UNKNOWN_SECONDS = 30.0


def cluster_of_attempt(job: RayJobView | None, attempt: AttemptStatus) -> str:
    """Return the name of the RayCluster that an attempt runs on; empty while nobody knows it.

    job: of the attempt; of a cluster of the run's own KubeRay tells the name there first.
    """
    return (job.cluster if job else "") or attempt.ray_cluster


def is_shared(attempt: AttemptStatus) -> bool:
    """Return whether an attempt runs on a shared RayCluster, whatever its run's spec says by now.

    Without a reservation, as in releases before this one, its name says it: KubeRay names a cluster
    of the RayJob's own <rayjob>-<five characters>.
    """
    cluster = attempt.ray_cluster
    is_own = cluster.startswith(f"{attempt.ray_job}-")
    return attempt.reservation is not None or (bool(cluster) and not is_own)


def holding_attempt(status: TrainingRunStatus) -> AttemptStatus | None:
    """Return the attempt that holds capacity of a shared RayCluster; None where none does."""
    newest = status.attempts[-1] if status.attempts else None
    if newest is None or newest.release_time is not None or not is_shared(newest):
        return None
    # Releases before this one wrote neither reservations nor when they ended.
    is_old = status.completion_time is not None and newest.reservation is None
    return None if is_old else newest


def must_stop(status: TrainingRunStatus, seen: Observed) -> AttemptStatus | None:
    """Return the attempt that ended of which only Ray knows whether its driver still runs."""
    newest = holding_attempt(status)
    if newest is None or newest.end_time is None or newest.exit_code is not None:
        return unconfirmed(status)
    if seen.ray_job is not None and not seen.ray_job.deleting:
        return None
    is_there = seen.cluster is not None and seen.cluster.name == newest.ray_cluster
    return newest if is_there else None


def unconfirmed(status: TrainingRunStatus) -> AttemptStatus | None:
    """Return the oldest attempt that was released although nobody said that its driver ended."""
    return next((each for each in status.attempts if each.release_reason == TIMED_OUT), None)


def release_reason(
    attempt: AttemptStatus, seen: Observed, grace_seconds: float, now: datetime
) -> str:
    """Return how it is known that an attempt that ended holds nothing; empty while it may."""
    job, head = seen.ray_job, seen.head
    assert attempt.end_time
    timed_out = now >= attempt.end_time + timedelta(seconds=grace_seconds + UNKNOWN_SECONDS)
    if not is_shared(attempt):
        if job is None and not any(pod.cluster == attempt.ray_cluster for pod in seen.pods):
            return "PodsGone"
        # Pods of a dead node stay in Terminating until somebody deletes the node.
        return TIMED_OUT if timed_out and (job is None or job.deleting) else ""
    if seen.over or (job and job.is_over) or attempt.exit_code is not None:
        return "JobOver"
    if attempt.reason == "StoppedOutside":
        return "JobOver"
    if attempt.head_identity and (head is None or head.identity != attempt.head_identity):
        return "HeadReplaced"
    waits = job is not None or seen.over is False or seen.asking
    return TIMED_OUT if timed_out and not waits else ""


def release_ended(
    status: TrainingRunStatus, seen: Observed, grace_seconds: float, now: datetime
) -> TrainingRunStatus:
    """Return the status of a run without an open attempt, with what is released by now."""
    last, earlier = (status.attempts[-1] if status.attempts else None), seen.earlier
    if last and last.end_time and last.release_time is None:
        reason = release_reason(last, seen, grace_seconds, now)
        return released(status, last, reason, now) if reason else status
    if earlier is None or not earlier.over:
        return status
    # Ray said that the driver of an attempt ended that was released by a time-out.
    known = next(each for each in status.attempts if each.number == earlier.number)
    return released(status, known, "JobOver", now)


def unreleased(status: TrainingRunStatus, seen: Observed) -> str:
    """Return why the next attempt has to wait for the one before; empty where nothing is left."""
    last, earlier = (status.attempts[-1] if status.attempts else None), seen.earlier
    if last is None or last.end_time is None:
        return ""
    if not all(job.deleting for job in seen.jobs):
        return "its RayJob is there"
    if last.release_time is None:
        return "its RayJob, its job or its Pods did not end yet"
    if earlier and not earlier.over and (earlier.over is False or earlier.asking):
        return f"the driver of attempt {earlier.number} still runs"
    return ""


def released(
    status: TrainingRunStatus, attempt: AttemptStatus, reason: str, now: datetime
) -> TrainingRunStatus:
    """Return the status with an attempt that holds nothing any more."""
    update = {"release_time": attempt.release_time or now, "release_reason": reason}
    new = attempt.model_copy(update=update)
    attempts = (new if each.number == new.number else each for each in status.attempts)
    return status.model_copy(update={"attempts": tuple(attempts)})
