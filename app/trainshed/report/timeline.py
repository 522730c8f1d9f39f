"""Say where along a run each event lies, also for programs that count no steps. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from trainshed.report.load import AttemptHistory
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    Progress,
    ResumePoint,
    Started,
    WorkersLost,
)

Measured = Progress | Evaluated


def place_events(attempts: Sequence[AttemptHistory]) -> tuple[str, Sequence[AttemptHistory]]:
    """What the curves are drawn over, and the attempts with that number as every event's `step`.

    Steps where all that was measured has one, else epochs, else the number of the report.
    """
    measured = [e for a in attempts for e in a.events if isinstance(e, Measured)]
    if all(event.step is not None for event in measured):
        return "step", attempts
    if all(event.epoch is not None for event in measured):
        return "epoch", _rebuilt(attempts, (_at_epoch(e) for a in attempts for e in a.events))
    return "report", _rebuilt(attempts, _counted(e for a in attempts for e in a.events))


def _at_epoch(event: AnyEvent) -> AnyEvent:
    if isinstance(event, Measured | CheckpointSaved):
        return event.model_copy(update={"step": event.epoch})
    if isinstance(event, Started | WorkersLost) and event.resumed_from:
        return _resumed_at(event, event.resumed_from, event.resumed_from.epoch or 0)
    return event


def _counted(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    number = 0
    written: dict[str, int] = {}
    for event in events:
        if isinstance(event, Progress):
            number += 1
        if isinstance(event, CheckpointSaved):
            written[event.path] = number
        if isinstance(event, Measured | CheckpointSaved):
            yield event.model_copy(update={"step": number})
        elif isinstance(event, Started | WorkersLost) and event.resumed_from:
            number = written.get(event.resumed_from.checkpoint, 0)
            yield _resumed_at(event, event.resumed_from, number)
        else:
            number = 0 if isinstance(event, Started | WorkersLost) else number
            yield event


def _resumed_at(event: Started | WorkersLost, point: ResumePoint, step: int) -> AnyEvent:
    return event.model_copy(update={"resumed_from": point.model_copy(update={"step": step})})


def _rebuilt(
    attempts: Sequence[AttemptHistory], events: Iterable[AnyEvent]
) -> list[AttemptHistory]:
    """The attempts with other events, as many as before."""
    coming = iter(events)
    return [AttemptHistory(a.number, tuple(next(coming) for _ in a.events)) for a in attempts]
