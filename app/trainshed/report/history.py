"""Tell what happened to a run: its attempts, its interruptions, its checkpoints. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from trainshed.display.formatting import (
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


class AttemptRow(NamedTuple):
    """An attempt, when it began, its last step, its seconds, and how it ended."""

    attempt: AttemptHistory
    began: float | None
    step: int | None
    seconds: float | None
    ended: str


def list_attempts(run: RunData) -> Iterator[AttemptRow]:
    """Yield one row for each attempt."""
    for attempt in run.attempts:
        steps = [s for e in attempt.events if (s := getattr(e, "step", None)) is not None]
        times = [event.time for event in attempt.events]
        # The first event arrives once there are workers.
        began = times[0] if times else None
        seconds = times[-1] - times[0] if times else None
        is_last = attempt is run.attempts[-1]
        ended: str = "still running" if is_last and run.result is None else "cut off"
        if finished := attempt.finished:
            seconds, ended = finished.wall_seconds, finished.outcome
            began = finished.time - seconds
        yield AttemptRow(attempt, began, max(steps, default=None), seconds, ended)


def list_checkpoints(run: RunData) -> list[tuple[CheckpointSaved, list[str]]]:
    """Return all checkpoints and their marks, the newest first."""
    best = find_best(run)
    last = run.result.checkpoint.path if run.result and run.result.checkpoint else None
    found = []
    for event in (event for attempt in run.attempts for event in attempt.events):
        if isinstance(event, CheckpointSaved):
            marks = {
                "last": event.path == last,
                "best": best and best.step is not None and best.step == event.step,
                "removed": event.path in run.removed,
            }
            found.append((event, [mark for mark, holds in marks.items() if holds]))
    return found[::-1]


def list_notes(run: RunData) -> list[tuple[str, str]]:
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
        (say_moment(time), f"{words} ({count} times)" if count > 1 else words)
        for time, words, count in told[:MAX_NOTES]
    ]
    if len(told) > MAX_NOTES:
        notes.append(("", f"and {len(told) - MAX_NOTES:,} more, see attempts/N/metrics.jsonl"))
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
