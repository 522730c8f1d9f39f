"""What is known of a run while it goes: events, time by bucket, and whether it should stop.

Pure: times come in. The coordinator actor holds one; workers push into it, the driver reads from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed_api.progress import Event

Seconds = dict[str, float]


@dataclass(frozen=True)
class Failure:
    """An exception of the user's code, or of the run on the user's data.

    Args:
        rank: the worker that raised it.
        step: steps done before.
        summary: type and message, one line.
        traceback: with the user's frames only.
    """

    rank: int
    step: int
    summary: str
    traceback: str


@dataclass(frozen=True)
class Ending:
    """How the training function ended on rank 0.

    Args:
        stopped: whether it was asked to stop.
        epoch: epochs finished.
        step: steps done.
        metrics: last known.
        samples: rows that were trained on in all steps of the last group.
        rate: rows a second while training.
        data_wait_percent: share of training time spent waiting for data.
        checkpoint: (folder, epoch, step) of the last one on storage.
    """

    stopped: bool
    epoch: int
    step: int
    metrics: Mapping[str, float]
    rate: float | None
    data_wait_percent: float | None
    checkpoint: tuple[str, int, int] | None


@dataclass(frozen=True)
class _Mark:
    time: float
    seconds: Seconds


@dataclass
class Hub:
    """The state itself.

    Args:
        started: when the driver's process began, seconds since 1970.
    """

    started: float
    events: list[Event] = field(default_factory=list)
    stop_reason: str | None = None
    failure: Failure | None = None
    ending: Ending | None = None
    groups: int = 0
    _marks: dict[int, _Mark] = field(default_factory=dict)
    _base: Seconds = field(default_factory=dict)
    _now: Seconds = field(default_factory=dict)
    _left: float | None = None

    def join(self, now: float, step: int) -> int:
        """Take in a new worker group that starts from `step`; return its number, from 1.

        What a former group did after that step is lost time.
        """
        self.groups += 1
        if self.groups == 1:
            self._base = {"starting": now - self.started}
        else:
            mark = self._marks.get(step) or self._marks[min(self._marks)]
            self._base = dict(mark.seconds)
            self._base["lost"] = self._base.get("lost", 0.0) + now - mark.time
        self._now = dict(self._base)
        self._marks = {step: _Mark(now, dict(self._base))}
        return self.groups

    def update(self, group: int, seconds: Mapping[str, float], events: Sequence[Event]) -> None:
        """Take in what rank 0 says; an earlier group's word no longer counts."""
        if group != self.groups:
            return
        self._now = self._with(seconds)
        self.events.extend(events)

    def mark(self, group: int, now: float, step: int, seconds: Mapping[str, float]) -> None:
        """Remember the time spent up to a checkpoint, in case that the group is lost after it."""
        if group == self.groups:
            self._marks[step] = _Mark(now, self._with(seconds))

    def leave(self, group: int, now: float, seconds: Mapping[str, float], ending: Ending) -> None:
        """Take in the end of the training function."""
        if group == self.groups:
            self._now = self._with(seconds)
            self.ending = ending
            self._left = now

    def seconds(self, now: float) -> Seconds:
        """Return where the time went until now; after the loop's end it is `stopping`."""
        seconds = dict(self._now)
        if self._left is not None:
            seconds["stopping"] = seconds.get("stopping", 0.0) + now - self._left
        return seconds

    def _with(self, seconds: Mapping[str, float]) -> Seconds:
        return self._base | {
            bucket: self._base.get(bucket, 0.0) + spent for bucket, spent in seconds.items()
        }
