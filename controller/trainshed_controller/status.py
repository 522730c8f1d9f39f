"""From one status to the next: attempts, progress, time. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trainshed_api.status import (
    AttemptStatus,
    BadRecordsStatus,
    CheckpointStatus,
    DriverTime,
    ProgressDisplay,
    ProgressStatus,
    ResultStatus,
    ResumedFrom,
    RunTime,
    StartSeconds,
    TrainingRunStatus,
)
from trainshed_controller.display import format_duration, format_number, format_part, format_rate

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainshed_api.progress import Progress
    from trainshed_api.snapshot import Snapshot
    from trainshed_api.start_times import StartTimes
    from trainshed_api.status import FailureCounts
    from trainshed_controller.judge import Ending

MOST_ATTEMPTS = 10
_MOST_METRICS = 50


def add_seconds(time: RunTime, bucket: str, seconds: float) -> RunTime:
    """Return the time with more of one bucket; a clock that went back adds nothing."""
    before = getattr(time, bucket)
    assert isinstance(before, float)
    return with_goodput(time.model_copy(update={bucket: round(before + max(0.0, seconds), 1)}))


def with_goodput(time: RunTime) -> RunTime:
    """Return the time with the share that was training."""
    whole = time.total() + time.queued + time.suspended + time.provisioning
    share = f"{time.training / whole:.2f}" if whole > 0 else ""
    return time.model_copy(update={"goodput": share})


def open_attempt(status: TrainingRunStatus) -> AttemptStatus | None:
    """Return the newest attempt if it has not ended."""
    newest = status.attempts[-1] if status.attempts else None
    return newest if newest and newest.outcome is None else None


def with_attempt(status: TrainingRunStatus, attempt: AttemptStatus) -> TrainingRunStatus:
    """Return the status with this attempt, new or changed; the oldest of more than ten goes."""
    kept = tuple(item for item in status.attempts if item.number != attempt.number)
    attempts = (*kept, attempt)[-MOST_ATTEMPTS:]
    return status.model_copy(update={"attempts": attempts, "attempt": attempts[-1].number})


def started(status: TrainingRunStatus, attempt: AttemptStatus, at: datetime) -> TrainingRunStatus:
    """Return the status with the attempt's program started."""
    spent = (at - status.phase_time).total_seconds() if status.phase_time else 0.0
    time = add_seconds(status.time, "provisioning", spent)
    changed = with_attempt(status, attempt.model_copy(update={"start_time": at}))
    return changed.model_copy(update={"time": time})


def ended(
    status: TrainingRunStatus, attempt: AttemptStatus, ending: Ending, now: datetime
) -> TrainingRunStatus:
    """Return the status with the attempt ended: outcome, counters and times in one."""
    time = status.time
    if attempt.start_time is None:
        spent = (now - status.phase_time).total_seconds() if status.phase_time else 0.0
        time = add_seconds(time, "provisioning", spent)
    else:
        # What no driver accounts for is lost.
        wall = (now - attempt.start_time).total_seconds()
        time = add_seconds(time, "lost", wall - attempt.time.total())
    closed = attempt.model_copy(
        update={
            "end_time": now,
            "outcome": ending.outcome,
            "reason": ending.reason,
            "message": ending.message[:8000],
            "exit_code": ending.exit_code,
            "node": ending.node,
            "steps_lost": _steps_lost(status, ending),
        }
    )
    return with_attempt(status, closed).model_copy(
        update={"time": time, "failures": _counted(status.failures, ending)}
    )


def _steps_lost(status: TrainingRunStatus, ending: Ending) -> int | None:
    if ending.outcome == "Succeeded" or status.progress is None or status.progress.step is None:
        return None
    kept = status.checkpoint.step if status.checkpoint else 0
    return max(0, status.progress.step - kept) if kept is not None else None


def _counted(failures: FailureCounts, ending: Ending) -> FailureCounts:
    counter = {
        "Application": "application",
        "Invalid": "application",
        "OutOfMemory": "out_of_memory",
        "Infrastructure": "infrastructure",
        "Preempted": "preempted",
    }.get(ending.outcome)
    if counter is None:
        return failures
    return failures.model_copy(update={counter: getattr(failures, counter) + 1})


def told(
    status: TrainingRunStatus, attempt: AttemptStatus, snapshot: Snapshot, datasets: Collection[str]
) -> TrainingRunStatus:
    """Return the status with what the attempt's driver said last.

    datasets: of the spec; bad records of no others are told, as the size of a status is limited.
    """
    at = _moment(snapshot.time)
    spent = {name: getattr(snapshot.seconds, name) for name in DriverTime.model_fields}
    time = attempt.time.model_copy(update={name: round(s, 1) for name, s in spent.items()})
    resumed = snapshot.resumed_from
    resumed_from = ResumedFrom(**resumed.model_dump()) if resumed else None
    changed = attempt.model_copy(
        update={
            "time": time,
            "resumed_from": resumed_from,
            "start": _start_seconds(attempt.start, snapshot.start),
        }
    )
    progress, checkpoint, new = status.progress, status.checkpoint, snapshot.checkpoint
    if snapshot.progress:
        progress = _progress(snapshot, snapshot.progress, progress)
    if new and (checkpoint is None or checkpoint.path != new.path):
        checkpoint = CheckpointStatus(path=new.path, epoch=new.epoch, step=new.step, time=at)
    result = status.result
    if snapshot.state == "Ended" and (snapshot.result or snapshot.report):
        metrics = progress.metrics if progress else {}
        result = ResultStatus(
            path=snapshot.result or "", report=snapshot.report or "", metrics=metrics
        )
    return with_attempt(status, changed).model_copy(
        update={
            "time": _replaced(status.time, attempt.time, time),
            "progress": progress,
            "checkpoint": checkpoint,
            "result": result,
            "bad_records": _bad_records(status, snapshot, datasets),
        }
    )


def _start_seconds(known: StartSeconds | None, told: StartTimes) -> StartSeconds | None:
    """Return the seconds of the phases that have ended; None if none has."""
    seconds = {name: getattr(told, name) for name in StartSeconds.model_fields}
    update = {name: None if took is None else round(took, 1) for name, took in seconds.items()}
    if all(took is None for took in update.values()):
        return None
    # Keeps the fields of a later release.
    return (known or StartSeconds()).model_copy(update=update)


def _bad_records(
    status: TrainingRunStatus, snapshot: Snapshot, datasets: Collection[str]
) -> dict[str, BadRecordsStatus]:
    """Return the rows that are left out: an attempt may read fewer than one before."""
    known = {name: bad for name, bad in status.bad_records.items() if name in datasets}
    more = {
        name: BadRecordsStatus(rows=bad.rows, first=bad.first)
        for name, bad in snapshot.bad_records.items()
        if name in datasets and (name not in known or bad.rows > known[name].rows)
    }
    return {**known, **more}


def _replaced(whole: RunTime, before: DriverTime, after: DriverTime) -> RunTime:
    """Return the time of the run with one attempt's share replaced."""
    update = {}
    for name in DriverTime.model_fields:
        seconds = getattr(whole, name) - getattr(before, name) + getattr(after, name)
        update[name] = round(max(0.0, seconds), 1)
    return with_goodput(whole.model_copy(update=update))


def _progress(told: Snapshot, new: Progress, old: ProgressStatus | None) -> ProgressStatus:
    moved = old is None or (new.epoch, new.step) != (old.epoch, old.step)
    at = _moment(new.time)
    metrics = {
        name: format_number(value) for name, value in list(told.metrics.items())[:_MOST_METRICS]
    }
    wait = None if new.data_wait_percent is None else round(new.data_wait_percent)
    eta = None if new.eta_seconds is None else round(new.eta_seconds)
    display = ProgressDisplay(
        epoch=format_part(new.epoch, new.epochs),
        step=format_part(new.step, new.steps),
        loss=format_number(new.loss),
        rate=format_rate(new.samples_per_second),
        data_wait="" if wait is None else f"{wait}%",
        eta="" if eta is None else format_duration(eta),
    )
    update = new.model_dump(include={"epoch", "epochs", "step", "steps", "percent"}) | {
        "samples_per_second": format_number(new.samples_per_second),
        "loss": display.loss,
        "metrics": metrics,
        "data_wait_percent": wait,
        "eta_seconds": eta,
        "moved_at": at if moved or old is None else old.moved_at,
        "updated_at": _moment(told.time),
        "display": display,
    }
    return (old or ProgressStatus()).model_copy(update=update)


def _moment(seconds: float) -> datetime:
    # Whole seconds, as the API server stores them: a read must equal the write.
    return datetime.fromtimestamp(int(seconds), UTC)


def whole(moment: datetime) -> datetime:
    """Return the moment as the API server keeps it."""
    return moment.replace(microsecond=0)
