"""The phases of an attempt's start, and how long each of them took. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainshed_api.progress import Moment, Progress, Record, Span, Started, Starting, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.progress import AnyEvent


class PhaseWords(NamedTuple):
    """What a phase is called, and what the run does in it."""

    name: str
    doing: str


# By field of StartTimes.
START_PHASES: Mapping[str, PhaseWords] = {
    "imports": PhaseWords("imports", "importing packages"),
    "planning": PhaseWords("planning", "checking code and data"),
    "ray": PhaseWords("Ray", "starting Ray"),
    "workers": PhaseWords("workers", "starting workers"),
    "first_step": PhaseWords("first step", "making the first step"),
}


class StartTimes(Record):
    """Seconds of each phase that has ended, and which one is under way since when.

    phase: empty before the first one, and after the first step. A later release may name others.
    """

    phase: Text = ""
    since: Moment = 0.0
    imports: Span | None = None
    planning: Span | None = None
    ray: Span | None = None
    workers: Span | None = None
    first_step: Span | None = None

    def after(self, event: AnyEvent) -> StartTimes:
        """Return what is known after an event of the attempt."""
        match event:
            case Starting():
                return self._begin(event.phase, event.time)
            case Started() if self.phase:
                return self._begin("first_step", event.time)
            case Progress() if self.phase:
                return self._begin("", event.time)
        return self

    def by_name(self) -> dict[str, float]:
        """Return the seconds of the phases that have ended, by what they are called."""
        seconds = {words.name: getattr(self, phase) for phase, words in START_PHASES.items()}
        return {name: took for name, took in seconds.items() if took is not None}

    def _begin(self, phase: str, time: float) -> StartTimes:
        """Return the times when a phase begins; the one before it ends."""
        update: dict[str, object] = {"phase": phase, "since": time}
        if self.phase in START_PHASES:
            update[self.phase] = (getattr(self, self.phase) or 0.0) + max(0.0, time - self.since)
        return self.model_copy(update=update)
