"""What is done about a run of which no attempt is under way. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_api.rayjob import AttemptIdentity
from trainshed_api.spechash import spec_hash, training_hash
from trainshed_api.status import AttemptStatus, QueueStatus
from trainshed_controller import status as states
from trainshed_controller.admission import request_of, reservation_of
from trainshed_controller.model import Plan
from trainshed_controller.release import release_ended, unconfirmed
from trainshed_controller.render import class_of, shared_cluster
from trainshed_controller.turn import failed, suspended, to_delete

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.status import TrainingRunStatus
    from trainshed_controller.model import RunView
    from trainshed_controller.turn import Turn

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10, 300
# An attempt that trained for so long shows that the failures before it are over.
_HEALTHY_SECONDS = 600.0
# From when on it is said for what a run waits that is about to go on.
_EXPLAINED_SECONDS = 60.0
_UNCONFIRMED_SECONDS = 30.0
_SOON_SECONDS = 2.0
NAME_TAKEN = "RayJobNameTaken"
WAITS_FOR_DRIVER = "WaitsForDriver"
# Capacity is no matter of a run that waits for one of these: it leaves the queue until then.
_NO_CAPACITY_HELPS = (NAME_TAKEN, WAITS_FOR_DRIVER)


def begin(turn: Turn, status: TrainingRunStatus) -> Plan:
    """Begin the next attempt when the last one is cleaned up and the cluster has capacity."""
    status, waits = _release(turn, status)
    leftovers = to_delete(turn.seen.jobs)
    if turn.run.spec.suspend:
        if waits is None and unconfirmed(status):
            waits = _UNCONFIRMED_SECONDS
        return Plan(suspended(turn, status), delete_jobs=leftovers, again_after=waits)
    if status.holds("Suspended"):
        status = turn.say(status, "Suspended", "Resumed", holds=False)
        status = turn.say(status, "Admitted", "Resumed", holds=False)
        status = states.with_phase(status, "Queued", turn.now)
    limit = turn.run.spec.active_deadline_seconds
    if limit and states.active_seconds(status, turn.view.created, turn.now) >= limit:
        message = f"activeDeadlineSeconds ({limit}) has passed"
        status = failed(status, "DeadlineExceeded", message, turn.stamp)
        return Plan(status, delete_jobs=leftovers)
    if waits:
        return Plan(status, delete_jobs=leftovers, again_after=waits)
    return _keeps_waiting(turn, status) or _begin_now(turn, status)


def _keeps_waiting(turn: Turn, status: TrainingRunStatus) -> Plan | None:
    """Return what is done while the next attempt has to wait; None where it may begin."""
    if pause := pause_seconds_left(status, turn.now):
        return Plan(status, again_after=max(1.0, pause))
    if taken := turn.seen.next_taken:
        message = f"RayJob {taken.name} exists already and belongs to another object"
        status = turn.say(status, "Progressing", NAME_TAKEN, message, holds=False)
        return Plan(status, again_after=30.0)
    return _no_room(turn, status) if class_of(turn.run, turn.settings) is None else None


def _release(turn: Turn, status: TrainingRunStatus) -> tuple[TrainingRunStatus, float | None]:
    """Return the status with what is released by now, and for how long to wait for the rest."""
    grace = turn.run.spec.grace_period_seconds
    status, why = release_ended(status, turn.seen, grace, turn.now)
    if not why:
        return status, None
    last = status.attempts[-1]
    assert last.end_time
    waited = (turn.now - last.end_time).total_seconds()
    if waited < _EXPLAINED_SECONDS or turn.run.spec.suspend:
        return status, _SOON_SECONDS
    message = f"attempt {last.number} is not released: {why}"
    return turn.say(status, "Progressing", WAITS_FOR_DRIVER, message, holds=False), 10.0


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


def _no_room(turn: Turn, status: TrainingRunStatus) -> Plan | None:
    """Return the condition while the shared cluster has no capacity; None when it has."""
    name, place = shared_cluster(turn.run, turn.settings), turn.seen.place
    if closed := _closed(turn, name):
        reason, message, position = "ClusterNotShared", closed, 0
    elif turn.seen.cluster is None:
        reason, message, position = "NoSuchCluster", f"no RayCluster {name} in this namespace", 0
    elif place is None:
        said = status.condition("Progressing")
        if said and said.reason in _NO_CAPACITY_HELPS:
            status = turn.say(status, "Progressing", "Queued", holds=False)
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
    queue = QueueStatus(
        position=position,
        reason=message,
        missing=place.missing if place else "",
        held_by=place.held_by if place else (),
    )
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
    shared = shared_cluster(turn.run, turn.settings)
    attempt = AttemptStatus(
        number=number,
        generation=turn.view.generation,
        spec_hash=spec_hash(turn.run.spec),
        training_hash=training_hash(turn.run.spec),
        ray_job=identity.ray_job,
        job_id=identity.job_id,
        ray_cluster=shared,
        reservation=reservation_of(
            request_of(turn.view.uid, turn.run), turn.run.spec.grace_period_seconds, turn.now
        )
        if shared
        else None,
    )
    status = states.with_phase(status, "Starting", turn.now)
    status = turn.say(status, "Admitted", "Admitted", holds=True)
    status = turn.say(status, "Progressing", "Starting", f"attempt {number}", holds=True)
    status = states.with_attempt(status, attempt).model_copy(
        update={"queue": None, "start_time": status.start_time or turn.now}
    )
    return Plan(status, begin=number)


def wants_room(view: RunView, now: datetime) -> bool:
    """Return whether the run waits for capacity: nothing of it runs, and nothing else is due."""
    if view.run is None or view.unreadable or view.deleting or view.run.spec.suspend:
        return False
    status = view.status
    accepted = status.condition("Accepted")
    if accepted and accepted.status != "True":
        return False
    said = status.condition("Progressing")
    if status.completion_time or (said and said.reason in _NO_CAPACITY_HELPS):
        return False
    last = status.attempts[-1] if status.attempts else None
    return last is None or (last.release_time is not None and not pause_seconds_left(status, now))
