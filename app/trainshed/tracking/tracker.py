"""The interface of a tracker, and what it is given. A new tracker is one module with one class."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.storage.folder import Folder
    from trainshed_api.names import Outcome

# A run that has ended waits no longer for all of its trackers.
SECONDS_TO_END = 10.0
_NOT_IN_NAMES = re.compile(r"[^\w\-./ ]", re.ASCII)
_MOST_CHARACTERS = 250


@dataclass(frozen=True)
class Point:
    """Metrics of a step.

    time: seconds since 1970.
    """

    step: int
    time: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """One run of a tracker: an attempt, and the attempts that it resumes.

    Args:
        id: the same for all of them.
        name: of the run.
        folder: of the run.
        first: number of the attempt that began it.
        attempt: number of this one.
        parameters: fields of the spec by path.
        facts: data, code and versions by name.
        step: after which this attempt trains.
    """

    id: str
    name: str
    folder: Folder
    first: int
    attempt: int
    parameters: Mapping[str, str | float]
    facts: Mapping[str, str] = field(default_factory=dict)
    step: int = 0


def metric_name(name: str) -> str:
    """Return the name of a metric in characters that all trackers accept."""
    return _NOT_IN_NAMES.sub("_", name)


def parameter_name(path: str) -> str:
    """Return the path of a parameter as a name that all trackers accept."""
    # MLflow reads a name with slashes as a path, and refuses one that is not the shortest.
    return metric_name(path).replace("/", "_")[:_MOST_CHARACTERS]


class Tracker(Protocol):
    """Where a run is logged. One thread calls it, and calls it again after an exception."""

    name: str

    def begin(self, run: TrackedRun) -> Mapping[str, int]:
        """Create the tracked run or continue it; return the last step of each metric it has."""
        ...

    def log(self, points: Sequence[Point]) -> None:
        """Log metrics, in the order of steps."""
        ...

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        """Log the result of an attempt."""
        ...
