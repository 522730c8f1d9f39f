"""Tell what happened to a run: its attempts, its interruptions, its checkpoints. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainshed.display.formatting import (
    MISSING,
    say_count,
    say_duration,
    say_moment,
    say_resume,
    say_stop,
)
from trainshed.report.load import AttemptHistory, RunData
from trainshed.report.metrics import find_best
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Finished,
    StepName,
    Stopping,
    WarningEvent,
    WorkersLost,
)

MAX_CHECKPOINTS = 50
MAX_NOTES = 100


@dataclass(frozen=True)
class AttemptRow:
    """One attempt in the table."""

    number: str
    started: str
    origin: str
    workers: str
    step: str
    took: str
    ended: str


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint in the table."""

    step: str
    epoch: str
    blocked: str
    path: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointList:
    """The checkpoints that are listed, and a word on those that are not."""

    rows: tuple[CheckpointRow, ...]
    summary: str


@dataclass(frozen=True)
class HistoryNote:
    """Something out of the ordinary, and when."""

    when: str
    words: str


def list_attempts(run: RunData) -> Iterator[AttemptRow]:
    """One row for each attempt."""
    for attempt in run.attempts:
        started, finished = attempt.started, attempt.finished
        steps = [s for e in attempt.events if (s := getattr(e, "step", None)) is not None]
        times = [event.time for event in attempt.events]
        span = times[-1] - times[0] if times else None
        is_last = attempt is run.attempts[-1]
        unended = "still running" if is_last and run.result is None else "cut off"
        yield AttemptRow(
            number=str(attempt.number),
            started=say_moment(_began(attempt, times)),
            origin=say_resume(started.resumed_from, run.step_name) if started else MISSING,
            workers=say_count(started.workers) if started else MISSING,
            step=say_count(max(steps, default=None)),
            took=say_duration(finished.wall_seconds if finished else span),
            ended=finished.outcome if finished else unended,
        )


def list_checkpoints(run: RunData) -> CheckpointList:
    """The newest checkpoints first."""
    events = [e for a in run.attempts for e in a.events if isinstance(e, CheckpointSaved)]
    best = find_best(run)
    last = run.result.checkpoint.path if run.result and run.result.checkpoint else None
    rows = []
    for event in reversed(events[-MAX_CHECKPOINTS:]):
        marks = []
        if event.path == last:
            marks.append("last")
        if best and best.step is not None and best.step == event.step:
            marks.append("best")
        if event.path in run.removed:
            marks.append("removed")
        rows.append(
            CheckpointRow(
                step=say_count(event.step),
                epoch=say_count(event.epoch),
                blocked=say_duration(event.blocked_seconds),
                path=event.path.removeprefix(f"{run.folder}/"),
                marks=tuple(marks),
            )
        )
    left_out = f", newest {MAX_CHECKPOINTS} shown" if len(events) > MAX_CHECKPOINTS else ""
    return CheckpointList(tuple(rows), f"{len(events)} written{left_out}")


def list_notes(run: RunData) -> list[HistoryNote]:
    """Interruptions, warnings, stops and ends in order; the same words in a row become one note."""
    told: list[tuple[float, str, int]] = []
    for attempt in run.attempts:
        for event in attempt.events:
            words = _say_event(event, attempt, run.step_name)
            if words and told and told[-1][1] == words:
                told[-1] = (told[-1][0], words, told[-1][2] + 1)
            elif words:
                told.append((event.time, words, 1))
    notes = [
        HistoryNote(say_moment(time), f"{words} ({count} times)" if count > 1 else words)
        for time, words, count in told[:MAX_NOTES]
    ]
    if len(told) > MAX_NOTES:
        notes.append(
            HistoryNote("", f"and {len(told) - MAX_NOTES:,} more, see attempts/N/metrics.jsonl")
        )
    return notes


def _say_event(event: AnyEvent, attempt: AttemptHistory, step_name: StepName) -> str:
    if isinstance(event, WorkersLost):
        back = say_resume(event.resumed_from, step_name)
        return f"Workers lost: {event.message} Resumed from {back}."
    if isinstance(event, WarningEvent):
        return f"Warning: {event.message}"
    if isinstance(event, Stopping):
        return f"Asked to stop ({event.reason}): {say_stop(event)}."
    if isinstance(event, Finished):
        return f"Attempt {attempt.number} ended: {event.outcome}. {event.message or ''}".rstrip()
    return ""


def _began(attempt: AttemptHistory, times: list[float]) -> float | None:
    """Return when an attempt began: its first event comes once workers are there."""
    if finished := attempt.finished:
        return finished.time - finished.wall_seconds
    return times[0] if times else None
