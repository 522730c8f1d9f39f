"""What a status says of a run: phase, conditions and Events, given its state. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from trainshed_api.pod_trouble import IMAGE_PULL_FAILED
from trainshed_api.start_times import START_PHASES
from trainshed_api.status import Condition, DriverTime, QueueStatus
from trainshed_controller.model import SILENT_SECONDS, Note, worst_trouble
from trainshed_controller.release import is_shared
from trainshed_controller.status import add_seconds, open_attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.status import AttemptStatus, ConditionType, Phase, TrainingRunStatus
    from trainshed_controller.facts import Facts, State

REFUSED = "RayJobRefused"
WORKERS_LOST = "WorkersLost"
NAME_TAKEN = "RayJobNameTaken"
WAITS_FOR_DRIVER = "WaitsForDriver"
# Capacity is no matter of a run that waits for one of these: it leaves the queue until then.
NO_CAPACITY_HELPS = (NAME_TAKEN, WAITS_FOR_DRIVER)
_TRAINING: tuple[Phase, ...] = ("Running", "Restarting")
# Whether workers are lost is a driver's word, too, which may alternate: one that had not trained
# for this long is reported with its other progress, without an Event.
_SECONDS_BETWEEN_LOSSES = 10.0
_LONGEST_MESSAGE, _LONGEST_NOTE = 8000, 1000
# Phases without an attempt, and the bucket of the time that a run spends in them.
_BUCKETS = {"Queued": "queued", "Suspended": "suspended", "Restarting": "lost"}


class Said(NamedTuple):
    """A condition: whether it holds, and why."""

    holds: bool
    reason: str
    message: str = ""


Conditions = dict["ConditionType", Said]


def project(facts: Facts, state: State, *, acts: bool) -> TrainingRunStatus:
    """Return the status with phase and conditions of this state.

    acts: something is still to be done, which may fail as it did before.
    """
    status, generation = facts.status, facts.view.generation
    phase, said = _said(facts, state)
    accepted = Said(False, *facts.refused) if facts.refused else Said(True, "Valid")
    if state.name != "Finished":
        said = {"Accepted": accepted, **said}
    if status.holds("InternalError") and not acts:
        said["InternalError"] = Said(False, "Recovered")
    status = with_conditions(status, said, facts.now, generation)
    if phase:
        status = with_phase(status, phase, facts.now)
    update: dict[str, object] = {"observed_generation": generation}
    if state.name in ("Succeeded", "Failed"):
        update["completion_time"] = facts.now
    if state.name not in ("Waiting", "AwaitsQueue", "Finished"):
        update["queue"] = None
    elif state.name == "Waiting":
        place = facts.seen.place if state.again_after is None else None  # else there is no queue
        update["queue"] = place.queue if place else QueueStatus(position=0, reason=state.message)
    status = status.model_copy(update=update)
    return _consistent(status, facts.now, generation)


def _said(  # noqa: PLR0911  # one for each state
    facts: Facts, state: State
) -> tuple[Phase | None, Conditions]:
    """Return the phase and the conditions of a state; None and no others where they stay."""
    reason, message = state.reason, state.message
    no = Said(False, reason, message)
    match state.name:
        case "Blocked":
            phase: Phase = "Suspended" if facts.status.phase == "Suspended" else "Queued"
            return phase, {"Admitted": no, "Progressing": no}
        case "Suspended":
            is_set = Said(True, "Suspended", "spec.suspend is true")
            return "Suspended", {"Suspended": is_set, "Progressing": Said(False, "Suspended")}
        case "Succeeded":
            no = Said(False, "Succeeded")
            return "Succeeded", {"Complete": Said(True, "Succeeded"), "Progressing": no}
        case "Failed":
            failed = Said(True, reason, message)
            return "Failed", {"Failed": failed, "Progressing": Said(False, reason)}
        case "Retrying":
            return "Restarting", {"Progressing": no}
        case "Waiting":
            # The column WHY of `kubectl get` is the reason of Progressing.
            place = facts.seen.place
            trouble = place.trouble if place and reason == "Queued" else None
            why = Said(False, trouble.reason, message) if trouble else no
            return "Queued", {"Admitted": no, "Progressing": why}
        case "QueuedByKueue":
            return "Queued", {"Admitted": no, "ClusterReady": no, "Progressing": no}
        case "Admitted":
            begun = Said(True, "Starting", message)
            return "Starting", {"Admitted": Said(True, "Admitted"), "Progressing": begun}
        case "Stopping":
            return "Stopping", {"Progressing": Said(True, reason, "stopping")}
        case "Starting" | "Training" | "WorkersLost":
            return _under_way(facts, state)
        case _:  # Creating, BackingOff and others say nothing of their own
            return None, {"Progressing": no} if reason else {}


def _under_way(facts: Facts, state: State) -> tuple[Phase, Conditions]:
    """Return phase and conditions of an attempt whose RayJob exists."""
    said: Conditions = {"ClusterReady": _cluster_ready(facts)}
    if not facts.status.holds("Admitted"):
        said["Admitted"] = Said(True, "Admitted")
    silence = _silence(facts)
    match state.name:
        case "WorkersLost":
            progressing = Said(True, state.reason, silence or state.message)
            return "Restarting", {**said, "Progressing": progressing}
        case "Training":
            says = silence or state.message or _start_phase(facts)
            progressing = Said(True, "Training", says)
            return "Running", {**said, "Progressing": progressing}
    trouble = worst_trouble(facts.seen.pods, facts.seen.cluster)
    # On a shared cluster a Pod that no node takes may be of a group that the run does not use.
    concerns = trouble and (trouble.reason == IMAGE_PULL_FAILED or not is_shared(facts.attempt))
    if trouble and concerns:
        return "Starting", {**said, "Progressing": Said(False, trouble.reason, trouble.message)}
    progressing = Said(True, "Starting", silence or _start_phase(facts) or state.message)
    return "Starting", {**said, "Progressing": progressing}


def _cluster_ready(facts: Facts) -> Said:
    job, cluster = facts.job, facts.attempt.ray_cluster
    assert job
    waits = job.suspended or job.deployment_status in ("", "Initializing", "Waiting")
    if job.job_status or not waits:
        return Said(True, "Ready", f"RayCluster {cluster}" if cluster else "")
    if trouble := worst_trouble(facts.seen.pods, facts.seen.cluster):
        return Said(False, "PodTrouble", trouble.message)
    word = "suspended" if job.suspended else job.deployment_status or "new"
    return Said(False, "Waiting", f"RayJob {job.name} is {word}")


def _silence(facts: Facts) -> str:
    """Return what is known of a driver that says nothing; empty for one that does."""
    silent = facts.seen.heard.silent_seconds
    if not facts.posts or silent < SILENT_SECONDS:
        return ""
    ray = {True: "that its job is over", False: "that its job runs", None: "nothing either"}
    minutes = int(silent // 60)
    return f"no heartbeat from the driver for {minutes} minutes; Ray says {ray[facts.seen.over]}"


def _start_phase(facts: Facts) -> str:
    """Return which phase of its start the attempt is in, and since when; empty if none is known.

    A moment instead of seconds: the status is not written again for each second.
    """
    told = facts.snapshot
    if told is None or told.start.phase not in START_PHASES or told.restarting:
        return ""
    if told.state != "Starting" and not told.steps_begun:
        return ""  # a function with a loop of its own reports no step
    since = datetime.fromtimestamp(told.start.since, UTC)
    return f"{START_PHASES[told.start.phase].doing} since {since:%H:%M:%S} UTC"


def with_conditions(
    status: TrainingRunStatus, said: Mapping[ConditionType, Said], now: datetime, generation: int
) -> TrainingRunStatus:
    """Return the status with these conditions; the time of each changes only when it turns."""
    known = {item.type: item for item in status.conditions}
    for kind, (holds, reason, message) in said.items():
        old = known.get(kind)
        turned = old is None or (old.status == "True") != holds
        new = Condition(
            type=kind,
            status="True" if holds else "False",
            reason=reason,
            message=message[:_LONGEST_MESSAGE],
            last_transition_time=now if turned or old is None else old.last_transition_time,
            observed_generation=generation,
        )
        # Keeps the fields of a later release.
        known[kind] = old.model_copy(update=dict(new)) if old else new
    return status.model_copy(update={"conditions": tuple(known.values())})


def _consistent(status: TrainingRunStatus, now: datetime, generation: int) -> TrainingRunStatus:
    """Return the status without conditions that its phase and its attempts contradict."""
    runs = open_attempt(status) is not None
    may_hold: dict[ConditionType, bool] = {
        "ClusterReady": runs,
        "Admitted": runs,
        "Suspended": status.phase == "Suspended",
    }
    no = Said(False, status.phase or "Queued")
    wrong = {kind: no for kind, may in may_hold.items() if status.holds(kind) and not may}
    return with_conditions(status, wrong, now, generation) if wrong else status


def with_phase(status: TrainingRunStatus, phase: Phase, now: datetime) -> TrainingRunStatus:
    """Return the status in this phase; the time of the one that ends goes to its bucket.

    While an attempt goes on its driver says where the time goes, that of lost workers included.
    """
    if status.phase == phase:
        return status
    time, bucket = status.time, _BUCKETS.get(status.phase or "")
    waits = status.phase == "Queued" or open_attempt(status) is None
    if bucket and status.phase_time and waits:
        time = add_seconds(time, bucket, (now - status.phase_time).total_seconds())
    return status.model_copy(update={"phase": phase, "phase_time": now, "time": time})


def notes_of(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> tuple[Note, ...]:
    """Return the Events of a transition: one when the phase changes, for a loss or a refusal."""
    if _trains(old) and _trains(new):
        is_told = old.phase != "Restarting" and not _turns_to_or_from_a_loss(old, new, now)
        return () if is_told else _note_of(old, new, WORKERS_LOST, "Restarting")
    if (old.phase == new.phase and _trains(old) == _trains(new)) or new.phase is None:
        return _note_of(old, new, REFUSED, REFUSED)
    if new.phase == "Queued" and new.condition("Admitted") is None:
        return ()  # its queue position is not known yet
    about: dict[Phase, ConditionType] = {"Queued": "Admitted", "Failed": "Failed"}
    said = new.condition(about.get(new.phase, "Progressing"))
    message = said.sentence if said else new.phase
    is_bad = new.phase in ("Restarting", "Failed")
    return (Note("Warning" if is_bad else "Normal", new.phase, message[:_LONGEST_NOTE]),)


def _note_of(
    old: TrainingRunStatus, new: TrainingRunStatus, reason: str, name: str
) -> tuple[Note, ...]:
    """Return the Event of a reason of Progressing that is new."""
    before, said = old.condition("Progressing"), new.condition("Progressing")
    if said is None or said.reason != reason or (before and before.reason == reason):
        return ()
    return (Note("Warning", name, said.sentence[:_LONGEST_NOTE]),)


def is_urgent(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> bool:
    """Say whether more changed than what a driver tells, and may tell as often as it likes."""
    return _turns(old) != _turns(new) or _turns_to_or_from_a_loss(old, new, now)


def _trains(status: TrainingRunStatus) -> bool:
    """Say whether an attempt trains, or its workers start again."""
    return status.phase in _TRAINING and open_attempt(status) is not None


def _turns(status: TrainingRunStatus) -> tuple[object, ...]:
    """Return what turns when a run goes from one state to the next: nothing of a driver's texts."""
    attempts = tuple(_turns_of(attempt) for attempt in status.attempts)
    conditions = {item.type: item.status for item in status.conditions}
    phase = "Running" if _trains(status) else status.phase
    return status.observed_generation, phase, status.failures, attempts, conditions


def _turns_of(attempt: AttemptStatus) -> AttemptStatus:
    """Return the attempt without what its driver says while it goes on."""
    return attempt.model_copy(update={"time": DriverTime(), "resumed_from": None, "start": None})


def _turns_to_or_from_a_loss(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> bool:
    """Say whether workers were lost or are back, of which a driver may make us tell so often."""
    if not (_trains(old) and _trains(new)) or old.phase == new.phase:
        return False
    trained = (now - old.phase_time).total_seconds() if old.phase_time else 0.0
    return new.phase == "Running" or trained >= _SECONDS_BETWEEN_LOSSES
