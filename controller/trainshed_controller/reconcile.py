"""What is to be done about one run, given what is seen of it. Pure, and level-triggered.

The same call serves creation, edits, events of children, ticks and restarts of the controller; it
reads the world, never the event, and called again on its own result it changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.spechash import same_training
from trainshed_controller import status as states
from trainshed_controller.begin import begin
from trainshed_controller.model import Note, Plan
from trainshed_controller.release import (
    confirmed,
    holding_attempt,
    release_ended,
    release_reason,
    released,
    unconfirmed,
)
from trainshed_controller.render import unacceptable
from trainshed_controller.status import Stamp
from trainshed_controller.turn import Turn, failed, to_delete
from trainshed_controller.watch import REFUSED, SOON_SECONDS, WORKERS_LOST, watch

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.status import AttemptStatus, ConditionType, Phase, TrainingRunStatus
    from trainshed_controller.model import Observed, RunView, Settings


_FINALIZER_SECONDS = 60.0
_HELD_SECONDS = 5.0
# For how long a driver is asked for that nobody could be asked for in time.
_CONFIRMED_SECONDS = 3600.0
# For how long a RayJob is kept that has nothing to do any more: one that failed for inspection.
_KEPT_SECONDS = {True: 60.0, False: 86_400.0}
_TRAINING: tuple[Phase, ...] = ("Running", "Restarting")
# Whether workers are lost is a driver's word, too, which may alternate: one that had not trained
# for this long is reported with its other progress, without an Event.
_SECONDS_BETWEEN_LOSSES = 10.0


def reconcile(view: RunView, seen: Observed, settings: Settings, now: datetime) -> Plan:
    """Return what is to be done now; a plan whose status is the old one writes nothing."""
    now = states.whole(now)
    if view.deleting or view.unreadable:
        return Plan(view.status)  # the garbage collector takes its children
    plan = _decide(view, seen, settings, now)
    status = plan.status.model_copy(update={"observed_generation": view.generation})
    stamp = Stamp(now, view.generation)
    if status.holds("InternalError") and not (plan.begin or plan.delete_jobs or plan.delete_run):
        # What failed may be the action that is still to be done: with it, nobody knows yet.
        status = states.with_condition(
            status, "InternalError", "Recovered", holds=False, stamp=stamp
        )
    status = states.consistent(status, stamp)
    return replace(
        plan,
        status=status,
        notes=plan.notes or _notes(view.status, status, now),
        urgent=plan.begin is not None or _is_urgent(view.status, status, seen, now),
    )


def _decide(view: RunView, seen: Observed, settings: Settings, now: datetime) -> Plan:
    if view.status.holds("Complete") or view.status.holds("Failed"):
        return _after_the_end(view, seen, now)
    stamp = Stamp(now, view.generation)
    attempt = states.open_attempt(view.status)
    refused = _refusal(view, settings, attempt)
    if refused:
        status = states.with_condition(view.status, "Accepted", *refused, holds=False, stamp=stamp)
        if attempt is None and _is_final(view.status, refused[0]):
            return Plan(failed(status, "Invalid", refused[1], stamp))
        if attempt is None:
            return _blocked(view, seen, status, refused, stamp)
    else:
        status = states.with_condition(view.status, "Accepted", "Valid", holds=True, stamp=stamp)
    if view.run is None:
        return Plan(status, again_after=SOON_SECONDS)
    if status.phase is None:
        # Waiting begins with the object, however late somebody looks.
        status = states.with_phase(status, "Queued", states.whole(view.created))
    turn = Turn(view, view.run, seen, settings, now)
    return watch(turn, status, attempt) if attempt else begin(turn, status)


def _refusal(
    view: RunView, settings: Settings, attempt: AttemptStatus | None
) -> tuple[str, str] | None:
    """Return why the run as it stands cannot be run."""
    if view.run is None or view.problem:
        return "Invalid", view.problem
    known = attempt or (view.status.attempts[-1] if view.status.attempts else None)
    if known and not same_training(view.run.spec, known.spec_hash, known.training_hash):
        message = (
            "the training was changed under the name of a run that began already; create it under "
            "another name, or delete it first"
        )
        return "TrainingChanged", message
    if attempt is None:
        try:
            encode_run(view.run)
        except SpecError as error:
            return "TooLarge", str(error)
    return unacceptable(view.run, settings)


def _is_final(status: TrainingRunStatus, reason: str) -> bool:
    """Return whether a refusal is its owner's fault: what was accepted once is the platform's."""
    if reason in ("TrainingChanged", "TooLarge"):
        return True
    return reason != "NoSuchClass" and status.condition("Accepted") is None


def _blocked(
    view: RunView, seen: Observed, status: TrainingRunStatus, refused: tuple[str, str], stamp: Stamp
) -> Plan:
    """Return what is done about a run that waits until the platform or its owner changes something.

    What its last attempt held is released all the same: others may use it meanwhile.
    """
    reason, message = refused
    status, held = release_ended(status, seen, _grace_seconds(view), stamp.now)
    for kind in ("Admitted", "Progressing"):
        status = states.with_condition(status, kind, reason, message, holds=False, stamp=stamp)
    if status.phase != "Suspended":
        status = states.with_phase(status, "Queued", states.whole(view.created))
    return Plan(
        status.model_copy(update={"queue": None}),
        delete_jobs=to_delete(seen.jobs),
        again_after=_HELD_SECONDS if held else _FINALIZER_SECONDS,
    )


def _grace_seconds(view: RunView) -> float:
    return view.run.spec.grace_period_seconds if view.run else 0.0


def _after_the_end(view: RunView, seen: Observed, now: datetime) -> Plan:
    """What may still run does not outlive the run, whatever became of its deletion before."""
    status, holder, ended = view.status, holding_attempt(view), view.status.completion_time
    if holder and holder.end_time:
        if reason := release_reason(holder, seen, _grace_seconds(view), now):
            status, holder = released(status, holder, reason, now), None
    else:
        status = confirmed(status, seen, now)
    age = (now - ended).total_seconds() if ended else 0.0
    kept = _KEPT_SECONDS[status.holds("Complete")]
    left_over = tuple(job for job in seen.jobs if not job.is_over or age >= kept)
    if left_over or holder:
        # The watch reports the end of an object that waits for a finalizer.
        doomed = to_delete(left_over)
        soon = doomed or (not seen.jobs and age < _FINALIZER_SECONDS)
        again_after = SOON_SECONDS if soon else _FINALIZER_SECONDS
        return Plan(status, delete_jobs=doomed, again_after=again_after)
    ttl = view.run.spec.ttl_seconds_after_finished if view.run else None
    due = [kept - age] if seen.jobs else []
    if unconfirmed(status) and age < _CONFIRMED_SECONDS:
        due.append(_FINALIZER_SECONDS)
    if ttl is not None and ended is not None:
        due.append((ended + timedelta(seconds=ttl) - now).total_seconds())
        if due[-1] <= 0:
            return Plan(status, delete_run=True)
    return Plan(status, again_after=min(due) if due else None)


_WARNED: frozenset[Phase] = frozenset({"Restarting", "Failed"})


def _notes(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> tuple[Note, ...]:
    """Return the Events of a transition: one when the phase changes, none otherwise."""
    if _trains(old) and _trains(new):
        return _loss_note(old, new, now)
    if (old.phase == new.phase and _trains(old) == _trains(new)) or new.phase is None:
        return _refusal_note(old, new)
    kind: ConditionType = "Progressing"
    if new.phase == "Queued":
        if new.condition("Admitted") is None:
            return ()  # its queue position is not known yet
        kind = "Admitted"
    elif new.phase == "Failed":
        kind = "Failed"
    said = new.condition(kind)
    message = (said.message or said.reason) if said else new.phase
    text = message[-1000:]
    if new.phase in _WARNED:
        return (Note("Warning", new.phase, text),)
    return (Note("Normal", new.phase, text),)


def _trains(status: TrainingRunStatus) -> bool:
    """Say whether an attempt trains, or its workers start again."""
    return status.phase in _TRAINING and states.open_attempt(status) is not None


def _loss_note(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> tuple[Note, ...]:
    """Return the Event of lost workers once their Pods are known: one a loss."""
    before, said = old.condition("Progressing"), new.condition("Progressing")
    if said is None or said.reason != WORKERS_LOST or (before and before.reason == WORKERS_LOST):
        return ()
    if old.phase != "Restarting" and not _turns_to_or_from_a_loss(old, new, now):
        return ()
    return (Note("Warning", "Restarting", said.message[-1000:]),)


def _refusal_note(old: TrainingRunStatus, new: TrainingRunStatus) -> tuple[Note, ...]:
    before, said = old.condition("Progressing"), new.condition("Progressing")
    if said is None or said.reason != REFUSED or (before and before.reason == REFUSED):
        return ()
    return (Note("Warning", REFUSED, said.message[-1000:]),)


def _is_urgent(
    old: TrainingRunStatus, new: TrainingRunStatus, seen: Observed, now: datetime
) -> bool:
    """Say whether more changed than what a driver tells, and may tell as often as it likes."""
    turned = _turns(old) != _turns(new) or _turns_to_or_from_a_loss(old, new, now)
    return turned or seen.heard.first_step


def _turns(status: TrainingRunStatus) -> tuple[object, ...]:
    """Return what turns when a run goes from one state to the next: nothing of a driver's texts."""
    attempts = tuple(_turns_of(attempt) for attempt in status.attempts)
    conditions = {item.type: item.status for item in status.conditions}
    phase = "Running" if _trains(status) else status.phase
    return status.observed_generation, phase, status.failures, attempts, conditions


def _turns_of(attempt: AttemptStatus) -> tuple[object, ...]:
    where = (attempt.number, attempt.ray_cluster, attempt.head_identity)
    ends = attempt.end_time, attempt.outcome, attempt.release_time
    return *where, attempt.start_time, attempt.stop_time, *ends


def _turns_to_or_from_a_loss(old: TrainingRunStatus, new: TrainingRunStatus, now: datetime) -> bool:
    """Say whether workers were lost or are back, of which a driver may make us tell so often."""
    if not (_trains(old) and _trains(new)) or old.phase == new.phase:
        return False
    trained = (now - old.phase_time).total_seconds() if old.phase_time else 0.0
    return new.phase == "Running" or trained >= _SECONDS_BETWEEN_LOSSES
