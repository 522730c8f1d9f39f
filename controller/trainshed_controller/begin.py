"""What is done about a run of which no attempt is under way. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_api.rayjob import AttemptIdentity
from trainshed_api.spechash import spec_hash, training_hash
from trainshed_api.status import AttemptStatus, QueueStatus
from trainshed_controller import status as states
from trainshed_controller.model import Plan
from trainshed_controller.render import class_of, shared_cluster
from trainshed_controller.turn import MOST_DELETIONS, failed, suspended

if TYPE_CHECKING:
    from trainshed_api.status import TrainingRunStatus
    from trainshed_controller.model import Observed, RayJobView, RunView
    from trainshed_controller.turn import Turn

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10, 300
# An attempt that trained for so long shows that the failures before it are over.
_HEALTHY_SECONDS = 600.0
# How long a lost driver may go on on a shared cluster that nobody can ask; the claim of the next
# attempt keeps it from doing harm after that.
_UNKNOWN_SECONDS = 30
_SOON_SECONDS = 2.0


def begin(turn: Turn, status: TrainingRunStatus) -> Plan:
    """Begin the next attempt when the last one is cleaned up and the cluster has capacity."""
    if turn.run.spec.suspend:
        return Plan(suspended(turn, status), delete_jobs=_leftovers(turn))
    if status.holds("Suspended"):
        status = turn.say(status, "Suspended", "Resumed", holds=False)
        status = turn.say(status, "Admitted", "Resumed", holds=False)
        status = states.with_phase(status, "Queued", turn.now)
    limit = turn.run.spec.active_deadline_seconds
    if limit and states.active_seconds(status, turn.view.created, turn.now) >= limit:
        message = f"activeDeadlineSeconds ({limit}) has passed"
        status = failed(status, "DeadlineExceeded", message, turn.stamp)
        return Plan(status, delete_jobs=_leftovers(turn))
    waits = _remains(turn, status)
    if waits:
        return Plan(status, delete_jobs=_leftovers(turn), again_after=waits)
    if class_of(turn.run, turn.settings) is None:
        refused = _no_room(turn, status)
        if refused:
            return refused
    if taken := turn.seen.next_taken:
        message = f"RayJob {taken.name} exists already and belongs to another object"
        status = turn.say(status, "Progressing", "RayJobNameTaken", message, holds=False)
        return Plan(status, again_after=30.0)
    return _begin_now(turn, status)


def _leftovers(turn: Turn) -> tuple[RayJobView, ...]:
    return tuple(job for job in turn.seen.jobs if not job.deleting)[:MOST_DELETIONS]


def _remains(turn: Turn, status: TrainingRunStatus) -> float | None:
    """Return for how long to wait for the end of what was before; None when nothing is left."""
    last = status.attempts[-1] if status.attempts else None
    if last is None or last.end_time is None:
        return None
    if turn.seen.jobs:
        return _SOON_SECONDS
    pause = last.end_time + timedelta(seconds=_pause_seconds(status))
    if last.outcome != "Stopped" and turn.now < pause:
        return max(1.0, (pause - turn.now).total_seconds())
    if class_of(turn.run, turn.settings) is not None:
        mine = [pod for pod in turn.seen.pods if pod.cluster == last.ray_cluster]
        return _SOON_SECONDS if mine else None
    return None if _is_over(turn, last) else _SOON_SECONDS


def _is_over(turn: Turn, last: AttemptStatus) -> bool:
    """Say whether the driver of an attempt on a shared cluster runs no more, for sure.

    One that nobody saw start may have: its RayJob may be started and deleted while the controller
    is away, or after the attempt was abandoned; its driver survives where the head is silent.
    """
    if turn.seen.over:
        return True
    head = turn.seen.head
    if last.head_identity and (head is None or head.identity != last.head_identity):
        return True
    # Ray or its driver said so when it ended.
    if last.exit_code is not None or last.reason == "StoppedOutside":
        return True
    if turn.seen.over is False or turn.seen.asking or last.end_time is None:
        return False
    grace = turn.run.spec.grace_period_seconds + _UNKNOWN_SECONDS
    return turn.now >= last.end_time + timedelta(seconds=grace)


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


def _no_room(turn: Turn, status: TrainingRunStatus) -> Plan | None:
    """Return the condition while the shared cluster has no capacity; None when it has."""
    name, place = shared_cluster(turn.run, turn.settings), turn.seen.place
    if closed := _closed(turn, name):
        reason, message, position = "ClusterNotShared", closed, 0
    elif turn.seen.cluster is None:
        reason, message, position = "NoSuchCluster", f"no RayCluster {name} in this namespace", 0
    elif place is None:
        return Plan(status)  # the queue has not looked yet; it will say so
    elif place.admitted:
        return None
    else:
        reason = "ExceedsCluster" if place.exceeds else "Queued"
        message, position = place.reason, place.position
    status = turn.say(status, "Admitted", reason, message, holds=False)
    # The column WHY of `kubectl get` is the reason of Progressing.
    why = place.trouble.reason if place and place.trouble else reason
    status = turn.say(status, "Progressing", why, message, holds=False)
    status = states.with_phase(status, "Queued", turn.now)
    queue = QueueStatus(position=position, reason=message)
    again = 10.0 if reason in ("NoSuchCluster", "ClusterNotShared") else None
    return Plan(status.model_copy(update={"queue": queue}), again_after=again)


def _closed(turn: Turn, name: str) -> str:
    """Return why runs may not share that RayCluster; empty where they may."""
    there = turn.settings.shared_clusters
    if name not in there:
        names = ", ".join(sorted(there))
        return (
            f'spec.cluster.shared: got "{name}"; expected one of controller.sharedClusters: {names}'
        )
    if turn.seen.cluster and turn.seen.cluster.owner:
        return f"RayCluster {name} belongs to another object, and is not for sharing"
    return ""


def _begin_now(turn: Turn, status: TrainingRunStatus) -> Plan:
    """Write the attempt down; its RayJob is created after that, never before."""
    number = status.attempt + 1
    identity = AttemptIdentity(turn.view.namespace, turn.view.name, turn.view.uid, number)
    attempt = AttemptStatus(
        number=number,
        generation=turn.view.generation,
        spec_hash=spec_hash(turn.run.spec),
        training_hash=training_hash(turn.run.spec),
        ray_job=identity.ray_job,
        job_id=identity.job_id,
        ray_cluster=shared_cluster(turn.run, turn.settings),
    )
    status = states.with_phase(status, "Starting", turn.now)
    status = turn.say(status, "Admitted", "Admitted", holds=True)
    status = turn.say(status, "Progressing", "Starting", f"attempt {number}", holds=True)
    status = states.with_attempt(status, attempt).model_copy(
        update={"queue": None, "start_time": status.start_time or turn.now}
    )
    return Plan(status, begin=number)


def wants_room(view: RunView) -> bool:
    """Say whether the run waits for capacity, or is about to."""
    if view.run is None or view.unreadable or view.deleting or view.run.spec.suspend:
        return False
    status = view.status
    accepted = status.condition("Accepted")
    if accepted and accepted.status != "True":
        return False
    return status.completion_time is None and states.open_attempt(status) is None


def must_ask_ray(view: RunView, seen: Observed) -> bool:
    """Say whether only Ray knows if the driver of the last attempt still runs."""
    last = view.status.attempts[-1] if view.status.attempts else None
    if last is None or last.end_time is None or view.status.completion_time is not None:
        return False
    if last.exit_code is not None or seen.ray_job is not None:
        return False
    return seen.cluster is not None and seen.cluster.name == last.ray_cluster
