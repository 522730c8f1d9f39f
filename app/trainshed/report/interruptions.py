"""What each loss of a run cost: when it was noticed, when workers were there, when they trained.

Pure. All seconds count from the last sign of life before the loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from trainshed.display.formatting import say_duration, say_moment
from trainshed.report.load import AttemptHistory, RunData
from trainshed.report.timeline import Measured
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Started,
    WorkersLost,
    WorkersReady,
)


@dataclass(frozen=True)
class LossRow:
    """One loss in the table."""

    when: str
    what: str
    noticed: str
    ready: str
    training: str


def list_losses(run: RunData) -> Iterator[LossRow]:
    """Lost workers, and attempts that were cut off and followed by another one, in order."""
    for attempt, following in zip_longest(run.attempts, run.attempts[1:]):
        yield from _of_workers(attempt)
        if following and attempt.finished is None and attempt.events and following.events:
            what = f"attempt {attempt.number} was interrupted"
            yield _row(what, attempt.events[-1].time, following.events, noticed=None)


def _of_workers(attempt: AttemptHistory) -> Iterator[LossRow]:
    events = attempt.events
    places = [i for i, event in enumerate(events) if isinstance(event, WorkersLost)]
    for place, end in zip_longest(places, places[1:]):
        lost = events[place]
        before = events[place - 1].time if place else lost.time
        yield _row("workers were lost", before, events[place + 1 : end], noticed=lost.time)


def _row(what: str, before: float, after: Sequence[AnyEvent], *, noticed: float | None) -> LossRow:
    def seconds(at: float | None) -> str:
        return say_duration(None if at is None else max(0.0, at - before))

    return LossRow(
        when=say_moment(before),
        what=what,
        noticed=seconds(noticed),
        ready=seconds(next((e.time for e in after if isinstance(e, Started | WorkersReady)), None)),
        training=seconds(
            next((e.time for e in after if isinstance(e, Measured | CheckpointSaved)), None)
        ),
    )
