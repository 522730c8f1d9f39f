"""What is done about one run, given what is seen of it: the whole decision. Pure.

`derive` names the state of the facts, `act` returns what is done in it, and `project` (project.py)
what the status says of it. How an attempt ended is in judge.py, what follows in failure_policy.py.
The same call serves creation, edits, events of children, ticks and restarts of the controller: it
reads the world, never the event, and called again on its own result it changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_api.names import SECONDS_AFTER_GRACE
from trainshed_api.rayjob import AttemptIdentity
from trainshed_api.spechash import spec_hash, training_hash
from trainshed_api.status import AttemptStatus, Reservation
from trainshed_controller import status as states
from trainshed_controller.admission import request_of
from trainshed_controller.facts import Facts, State, facts_of, final_refusal
from trainshed_controller.failure_policy import apply_rules, final_failure, pause_seconds_left
from trainshed_controller.judge import Ending, judge
from trainshed_controller.model import SILENT_SECONDS, Plan
from trainshed_controller.project import (
    NAME_TAKEN,
    NO_CAPACITY_HELPS,
    REFUSED,
    WAITS_FOR_DRIVER,
    WORKERS_LOST,
    Conditions,
    Said,
    is_urgent,
    notes_of,
    project,
    with_conditions,
    with_phase,
)
from trainshed_controller.release import (
    holding_attempt,
    is_shared,
    release_ended,
    unconfirmed,
    unreleased,
)
from trainshed_controller.render import class_of, shared_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from trainshed_api.status import AttemptOutcome
    from trainshed_controller.model import Observed, RayJobView, RunView, Settings

_SOON_SECONDS, _HELD_SECONDS, _FINALIZER_SECONDS = 2.0, 5.0, 60.0
# A head's answer, or its absence, requeues the run sooner.
_ANSWER_SECONDS = 30.0
# Quotas change when somebody else ends, which nobody tells.
_REFUSED_SECONDS = 30.0
# How long an attempt of which the RayJob is refused holds capacity of a shared cluster.
_HOLDS_SECONDS = 60.0
# From when on it is said for what a run waits that is about to go on.
_EXPLAINED_SECONDS = 60.0
# For how long a driver is asked for that nobody could be asked for in time.
_CONFIRMED_SECONDS = 3600.0
# For how long a RayJob is kept that has nothing to do any more: one that failed for inspection.
_KEPT_SECONDS = {True: 60.0, False: 86_400.0}
# Of one look: each may take as long as the API server likes, and a look has an end.
_MOST_DELETIONS, _MOST_NAMED = 10, 3


def decide(view: RunView, seen: Observed, settings: Settings, now: datetime) -> Plan:
    """Return what is to be done now; a plan whose status is the old one writes nothing."""
    if view.deleting or view.unreadable:
        return Plan(view.status)  # the garbage collector takes its children
    facts = facts_of(view, seen, settings, now)
    state = derive(facts)
    if state.ending:
        facts, state = _close(facts, state.ending)
    plan = act(facts, state)
    now, acts = facts.now, plan.begin is not None or bool(plan.delete_jobs) or plan.delete_run
    status = project(facts.having(plan.status), state, acts=acts)
    urgent = plan.begin is not None or seen.heard.first_step or is_urgent(view.status, status, now)
    return replace(plan, status=status, notes=notes_of(view.status, status, now), urgent=urgent)


# ---------------------------------------------------------------- states


def derive(facts: Facts) -> State:
    """Return the state of the run: the first one that holds."""
    if facts.is_finished:
        return State("Finished")
    return _derive_open(facts) if facts.is_open else _derive_closed(facts)


def _derive_open(facts: Facts) -> State:  # noqa: PLR0911  # one for each state
    """Return the state of a run that has an attempt under way."""
    attempt, job, seen = facts.attempt, facts.job, facts.seen
    if facts.view.run is None:
        return State("Unreadable", again_after=_SOON_SECONDS)
    if seen.asking and job and job.is_terminal:
        # Its driver's last word is on its way, and says why it ended.
        return State("AwaitsLastWord", again_after=_ANSWER_SECONDS)
    if ending := judge(facts):
        return State("Ended", ending=ending)
    if reason := attempt.stop_reason if attempt.stop_time else _reason_to_stop(facts):
        return State("Stopping", reason)
    if job is None:
        return _derive_without_job(facts)
    again_after = _next_deadline(facts)
    if job.suspended and attempt.start_time is None:
        message = f"RayJob {job.name} waits for admission by Kueue"
        return State("QueuedByKueue", "QueuedByKueue", message)
    if lost := _lost_workers(facts):
        return State("WorkersLost", *lost, again_after)
    told = seen.snapshot is not None and seen.snapshot.state != "Starting"
    silent = attempt.start_time is not None and not facts.settings.progress_url
    # A run that trained does not return to Starting after a restart of the controller.
    if told or silent or facts.status.phase in ("Running", "Restarting"):
        return State("Training", "Training", _troubles(facts), again_after)
    return State("Starting", "Starting", f"RayJob {job.name}", again_after)


def _derive_without_job(facts: Facts) -> State:
    """Return the state of an attempt that is in the status and has no RayJob yet."""
    attempt, refusal, now = facts.attempt, facts.seen.refusal, facts.now
    if facts.refused:
        # The RayJob would be of the spec as it is now, which may have changed since the admission.
        outcome: AttemptOutcome = "Invalid" if facts.view.problem else "Preempted"
        return State("Ended", ending=Ending(outcome, *facts.refused))
    if attempt.generation != facts.view.generation:
        why = "SpecChanged", "the spec was changed before the RayJob was created"
        return State("Ended", ending=Ending("Preempted", *why))
    if refusal is None or refusal.attempt != attempt.number:
        return State("Creating")
    said = facts.status.condition("Progressing")
    since = said.last_transition_time if said and said.status == "False" else now
    if is_shared(attempt) and (now - since).total_seconds() >= _HOLDS_SECONDS:
        # Others may use the capacity; a refusal is not the run's failure.
        return State("Ended", ending=Ending("Preempted", REFUSED, refusal.message))
    # A clock that is set back makes nobody wait for longer.
    left = min(_REFUSED_SECONDS - (now - refusal.time).total_seconds(), _REFUSED_SECONDS)
    return State("Refused", REFUSED, refusal.message, max(1.0, left) if left > 0 else None)


def _derive_closed(facts: Facts) -> State:  # noqa: PLR0911  # one for each state
    """Return the state of a run of which no attempt is under way."""
    status, seen, now = facts.status, facts.seen, facts.now
    why = unreleased(status, seen)
    if refused := final_refusal(facts):
        return State("Failed", "Invalid", refused)
    if facts.refused:
        # What its last attempt held is released all the same: others may use it meanwhile.
        return State("Blocked", *facts.refused, _HELD_SECONDS if why else _FINALIZER_SECONDS)
    if facts.spec.suspend:
        soon = _SOON_SECONDS if why else None
        return State("Suspended", again_after=soon or (30.0 if unconfirmed(status) else None))
    if _is_out_of_time(facts):
        message = f"activeDeadlineSeconds ({facts.spec.active_deadline_seconds}) has passed"
        return State("Failed", "DeadlineExceeded", message)
    if why:
        return _unreleased(facts, why)
    if pause := pause_seconds_left(status, now):
        return State("BackingOff", again_after=max(1.0, pause))
    if taken := seen.next_taken:
        message = f"RayJob {taken.name} exists already and belongs to another object"
        return State("NameTaken", NAME_TAKEN, message, 30.0)
    run = facts.view.run
    waits = _no_capacity(facts) if run and class_of(run, facts.settings) is None else None
    return waits or State("Admitted", "Starting", f"attempt {status.attempt + 1}")


def _unreleased(facts: Facts, why: str) -> State:
    last = facts.attempt
    assert last.end_time
    if (facts.now - last.end_time).total_seconds() < _EXPLAINED_SECONDS:
        return State("Unreleased", again_after=_SOON_SECONDS)
    message = f"attempt {last.number} is not released: {why}"
    return State("Unreleased", WAITS_FOR_DRIVER, message, 10.0)


def _no_capacity(facts: Facts) -> State | None:
    """Return the state while the shared cluster has no capacity; None when it has."""
    assert facts.view.run
    name, cluster = shared_cluster(facts.view.run, facts.settings), facts.seen.cluster
    place, shared = facts.seen.place, facts.settings.shared_clusters
    if name not in shared:
        message = f'spec.cluster.shared: got "{name}"; expected one of controller.sharedClusters: '
        return State("Waiting", "ClusterNotShared", message + ", ".join(sorted(shared)), 10.0)
    if cluster and cluster.owner:
        message = f"RayCluster {name} belongs to another object, and is not for sharing"
        return State("Waiting", "ClusterNotShared", message, 10.0)
    if cluster is None:
        return State("Waiting", "NoSuchCluster", f"no RayCluster {name} in this namespace", 10.0)
    if place is None:
        said = facts.status.condition("Progressing")
        # The queue has not looked yet; it will say why the run waits.
        waited = said is not None and said.reason in NO_CAPACITY_HELPS
        return State("AwaitsQueue", "Queued" if waited else "")
    if place.admitted:
        return None
    return State("Waiting", "ExceedsCluster" if place.exceeds else "Queued", place.queue.reason)


def _reason_to_stop(facts: Facts) -> str:
    if facts.spec.suspend:
        return "Suspended"
    return "DeadlineExceeded" if _is_out_of_time(facts) else ""


def _is_out_of_time(facts: Facts) -> bool:
    limit = facts.spec.active_deadline_seconds
    return bool(limit) and facts.active_seconds >= (limit or 0)


def _troubles(facts: Facts) -> str:
    """Return what a driver says of a run that trains all the same; empty where all is well."""
    told = facts.seen.snapshot
    if told is None:
        return ""
    lost = f"workers were lost and started again {told.workers_lost} times"
    return "; ".join(filter(None, (lost if told.workers_lost else "", told.waits_for)))


def _lost_workers(facts: Facts) -> tuple[str, str] | None:
    """Return reason and message where workers are lost and not at work again.

    Pods that were named stay named until then, whatever the driver says next.
    """
    told = facts.seen.snapshot
    if told is None or told.state != "Training":
        return None
    lost = [pod for pod in facts.seen.gone if pod.name in told.hosts and not pod.is_head]
    if lost:
        where = ", ".join(f"Pod {pod.name} on node {pod.node}" for pod in lost[:_MOST_NAMED])
        return WORKERS_LOST, f"workers are lost and start again: {where}"
    if not told.restarting:
        return None
    said = facts.status.condition("Progressing")
    if facts.status.phase == "Restarting" and said and said.reason == WORKERS_LOST:
        return said.reason, said.message
    return "WorkersRestarting", told.warnings[-1] if told.warnings else "workers were lost"


def _next_deadline(facts: Facts) -> float | None:
    """Return the seconds until the next deadline of an attempt could pass."""
    spec, left = facts.spec, []
    starts = facts.attempt.start_time is None and facts.status.holds("Admitted")
    if spec.provisioning_deadline_seconds and starts:
        left.append(spec.provisioning_deadline_seconds - facts.provisioned_seconds)
    if spec.active_deadline_seconds:
        left.append(spec.active_deadline_seconds - facts.active_seconds)
    if facts.posts:
        # No event reports silence.
        left.append(SILENT_SECONDS - facts.seen.heard.silent_seconds % SILENT_SECONDS)
    return max(1.0, min(left)) if left else None


# ---------------------------------------------------------------- what is done


def _close(facts: Facts, ending: Ending) -> tuple[Facts, State]:
    """Return the facts with the attempt ended, counters and all, and the state that follows."""
    status, now, spec = facts.status, facts.now, facts.spec
    if status.phase == "Restarting":
        # Its workers had not begun again: that time is the driver's to tell, not the next wait's.
        status = with_phase(status, "Running", now)
    ending, forbidden = apply_rules(ending, spec.failure_policy)
    status = states.ended(status, facts.attempt, ending, now)
    status = release_ended(status, facts.seen, facts.grace_seconds, now)
    over: Conditions = {"Admitted": Said(False, "AttemptEnded")}
    facts = facts.having(with_conditions(status, over, now, facts.view.generation))
    if ending.outcome == "Succeeded":
        return facts, State("Succeeded")
    failure = final_failure(ending, spec, status.failures)
    if forbidden:
        failure = "FailurePolicy", ending.message
    if failure:
        return facts, State("Failed", *failure)
    if ending.outcome == "Stopped":
        return facts, State("Suspended")
    return facts, State("Retrying", ending.reason, ending.message, _SOON_SECONDS)


def act(facts: Facts, state: State) -> Plan:  # noqa: PLR0911  # one for each state
    """Return what is done in a state, with the status that is written before."""
    plan = Plan(facts.status, again_after=state.again_after)
    strays = _to_delete(_strays(facts))
    match state.name:
        case "Finished":
            return _clean_up(facts)
        case "Admitted":
            return _begin(facts)
        case "Stopping":
            return _stop(facts, state.reason, strays)
        case "Creating":
            return replace(plan, begin=facts.attempt.number, delete_jobs=strays)
        case "Refused":
            begin = None if state.again_after else facts.attempt.number
            return replace(plan, begin=begin, delete_jobs=strays)
        case "Failed":
            # A failed RayJob stays for inspection; one that may still run does not.
            jobs = (job for job in facts.seen.jobs if not job.is_over)
            return replace(plan, delete_jobs=_to_delete(jobs))
        case "Blocked" | "Suspended" | "Unreleased" | "Retrying":
            return replace(plan, delete_jobs=_to_delete(facts.seen.jobs))
        case _:
            return replace(plan, delete_jobs=strays)


def _to_delete(jobs: Iterable[RayJobView]) -> tuple[RayJobView, ...]:
    """Return those of these RayJobs that this look deletes; none that is being deleted."""
    return tuple(job for job in jobs if not job.deleting)[:_MOST_DELETIONS]


def _strays(facts: Facts) -> Iterable[RayJobView]:
    """Return RayJobs of earlier attempts: one that this process did not know, whose driver may run.

    One of no attempt that the status has may be of a status that was lost: it is adopted.
    """
    earlier = {attempt.ray_job for attempt in facts.status.attempts[:-1]}
    return (job for job in facts.seen.strays if job.name in earlier)


def _begin(facts: Facts) -> Plan:
    """Write the attempt down; its RayJob is created after that, never before."""
    view, run, now, number = facts.view, facts.view.run, facts.now, facts.status.attempt + 1
    assert run
    identity = AttemptIdentity(view.namespace, view.name, view.uid, number)
    shared = shared_cluster(run, facts.settings)
    held = Reservation(
        **request_of(run).model_dump(), since=now, grace_seconds=run.spec.grace_period_seconds
    )
    attempt = AttemptStatus(
        number=number,
        generation=view.generation,
        spec_hash=spec_hash(run.spec),
        training_hash=training_hash(run.spec),
        ray_job=identity.ray_job,
        job_id=identity.job_id,
        ray_cluster=shared,
        reservation=held if shared else None,
    )
    status = with_phase(facts.status, "Starting", now)  # the time of the wait ends here
    status = states.with_attempt(status, attempt)
    start = {"start_time": status.start_time or now}
    return Plan(status.model_copy(update=start), begin=number)


def _stop(facts: Facts, reason: str, strays: tuple[RayJobView, ...]) -> Plan:
    """The driver hears of it in the answer to its next snapshot; after its grace it is stopped."""
    attempt, job = facts.attempt, facts.job
    stop_time = attempt.stop_time or facts.now
    attempt = attempt.model_copy(update={"stop_time": stop_time, "stop_reason": reason})
    status = states.with_attempt(facts.status, attempt)
    # Where nothing runs that could write a checkpoint there is nothing to wait for.
    grace = facts.grace_seconds + SECONDS_AFTER_GRACE if attempt.start_time else 0.0
    left = (stop_time + timedelta(seconds=grace) - facts.now).total_seconds()
    if left <= 0 and job and not job.deleting:
        # KubeRay passes the deletion on to Ray as StopJob: SIGTERM, then the grace period.
        return Plan(status, delete_jobs=(job, *strays), again_after=_SOON_SECONDS)
    return Plan(status, delete_jobs=strays, again_after=max(_SOON_SECONDS, left))


def _clean_up(facts: Facts) -> Plan:
    """What may still run does not outlive the run, whatever became of its deletion before."""
    status, jobs, ended = facts.status, facts.seen.jobs, facts.status.completion_time
    age = (facts.now - ended).total_seconds() if ended else 0.0
    kept = _KEPT_SECONDS[status.holds("Complete")]
    left_over = [job for job in jobs if not job.is_over or age >= kept]
    if left_over or holding_attempt(status):
        # The watch reports the end of an object that waits for a finalizer.
        doomed = _to_delete(left_over)
        soon = doomed or (not jobs and age < _FINALIZER_SECONDS)
        again_after = _SOON_SECONDS if soon else _FINALIZER_SECONDS
        return Plan(status, delete_jobs=doomed, again_after=again_after)
    ttl = facts.spec.ttl_seconds_after_finished if facts.view.run else None
    due = [kept - age] if jobs else []
    if unconfirmed(status) and age < _CONFIRMED_SECONDS:
        due.append(_FINALIZER_SECONDS)
    if ttl is not None and ended is not None:
        due.append((ended + timedelta(seconds=ttl) - facts.now).total_seconds())
        if due[-1] <= 0:
            return Plan(status, delete_run=True)
    return Plan(status, again_after=min(due) if due else None)


def wants_room(view: RunView, now: datetime) -> bool:
    """Return whether the run waits for capacity: nothing of it runs, and nothing else is due."""
    if view.run is None or view.unreadable or view.deleting or view.run.spec.suspend:
        return False
    status = view.status
    accepted, said = status.condition("Accepted"), status.condition("Progressing")
    if status.completion_time or (accepted and accepted.status != "True"):
        return False
    if said and said.reason in NO_CAPACITY_HELPS:
        return False
    last = status.attempts[-1] if status.attempts else None
    return last is None or (last.release_time is not None and not pause_seconds_left(status, now))
