"""The phases of a start, and how long each of them took. Pure."""

from collections.abc import Iterable, Mapping

from trainshed.display.formatting import say_duration
from trainshed_api.progress import AnyEvent, Progress
from trainshed_api.start_times import StartTimes


def start_seconds(events: Iterable[AnyEvent]) -> dict[str, float]:
    """Return the seconds of each phase of an attempt's start that has ended, in order."""
    times = StartTimes()
    for event in events:
        times = times.after(event)
        if isinstance(event, Progress):
            break
    return times.by_name()


def say_start(seconds: Mapping[str, float]) -> str:
    """Return the phases of a start on one line: imports 1.2 s, planning 3.4 s."""
    return ", ".join(f"{name} {say_duration(took)}" for name, took in seconds.items())
