"""The phases of a start, and how long each of them took. Pure."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from trainshed.display.formatting import say_duration
from trainshed_api.progress import AnyEvent, Progress, Started, Starting, StartPhase

# What a phase is called, and what the run does in it.
PHASES: Mapping[StartPhase, tuple[str, str]] = {
    "imports": ("imports", "importing packages"),
    "planning": ("planning", "checking code and data"),
    "ray": ("Ray", "starting Ray"),
    "workers": ("workers", "starting workers"),
}
FIRST_STEP = "first step"


def start_seconds(events: Iterable[AnyEvent]) -> dict[str, float]:
    """Return the seconds of each phase of an attempt's start that has ended, in order."""
    marks: list[tuple[str, float]] = []
    for event in events:
        if isinstance(event, Starting):
            marks.append((PHASES[event.phase][0], event.time))
        elif isinstance(event, Started) and marks:
            marks.append((FIRST_STEP, event.time))
        elif isinstance(event, Progress):
            marks.append(("", event.time))
            break
    seconds: dict[str, float] = {}
    for (name, begin), (_, end) in pairwise(marks):
        seconds[name] = seconds.get(name, 0.0) + max(0.0, end - begin)
    return seconds


def say_start(seconds: Mapping[str, float]) -> str:
    """Return the phases of a start on one line: imports 1.2 s, planning 3.4 s."""
    return ", ".join(f"{name} {say_duration(took)}" for name, took in seconds.items())
