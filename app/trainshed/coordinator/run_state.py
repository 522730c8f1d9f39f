"""What is known of a run while it goes: events, time by bucket, and whether it should stop.

Pure: times come in. The coordinator actor holds one; workers push into it, the driver reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed_api.names import APPLICATION, FailureCause
from trainshed_api.progress import (
    CheckpointSaved,
    ResumePoint,
    Started,
    WarningEvent,
    WorkersLost,
    WorkersReady,
)

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
        cause: by which the controller decides what follows.
    """

    rank: int
    step: int
    summary: str
    traceback: str
    cause: FailureCause = APPLICATION


@dataclass(frozen=True)
class FunctionResult:
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
        unsaved: which later one is not there and why, of a run that was stopped.
        note: what to tell of a run that succeeded, such as that it stopped early.
    """

    stopped: bool
    epoch: int
    step: int
    metrics: Mapping[str, float]
    rate: float | None
    data_wait_percent: float | None
    checkpoint: tuple[str, int, int] | None
    unsaved: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Reported:
    """What the user's own `ray.train.report` calls came to; None where they do not say.

    Args:
        epoch: as it was reported.
        step: as it was reported.
        metrics: the last value of each.
        checkpoint: (folder, epoch, step) of the last one on storage.
    """

    epoch: int | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    checkpoint: tuple[str, int | None, int | None] | None = None

    @property
    def resume_point(self) -> ResumePoint | None:
        """Return the checkpoint as a resume point."""
        if self.checkpoint is None:
            return None
        path, epoch, step = self.checkpoint
        return ResumePoint(checkpoint=path, epoch=epoch, step=step)

    def then(self, later: Reported) -> Reported:
        """Return what is known after a later report."""
        return Reported(
            self.epoch if later.epoch is None else later.epoch,
            self.step if later.step is None else later.step,
            {**self.metrics, **later.metrics},
            later.checkpoint or self.checkpoint,
        )


@dataclass(frozen=True)
class _Mark:
    time: float
    seconds: Seconds


@dataclass
class RunState:
    """The state itself.

    Args:
        started: when the driver's process began, seconds since 1970.
    """

    started: float
    events: list[Event] = field(default_factory=list)
    stop_reason: str | None = None
    saves: bool = False
    steps_begun: bool = False
    _waiting: dict[int, int] = field(default_factory=dict)
    _world_size: int = 0
    _all_leave: bool = False
    failure: Failure | None = None
    ending: FunctionResult | None = None
    reported: Reported = field(default_factory=Reported)
    groups: int = 0
    hosts: tuple[str, ...] = ()
    _joined_step: int = 0
    _marks: dict[int, _Mark] = field(default_factory=dict)
    _base: Seconds = field(default_factory=dict)
    _now: Seconds = field(default_factory=dict)
    _left: float | None = None
    _held: Seconds = field(default_factory=dict)
    _saved: CheckpointSaved | None = None
    _began: Started | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Keep events until the driver takes them."""
        self.events.extend(events)
        for event in events:
            if isinstance(event, CheckpointSaved):
                self._saved = event
            elif isinstance(event, Started):
                self._began = event

    def take(self) -> list[Event]:
        """Return the events since the last call, and forget them: a run may go on for weeks."""
        taken, self.events = self.events, []
        return taken

    def join(self, now: float, step: int) -> int:
        """Take in a new worker group that starts from `step`; return its number, from 1.

        What a former group did after that step is lost time, unless it had come to its end: a
        script may fit more than once.
        """
        self.groups += 1
        self._joined_step = step
        self._waiting, self._all_leave = {}, False
        if self.groups == 1:
            self._base = {"starting": now - self.started}
        elif self._left is not None:
            self._base = dict(self._now)
            self._base["starting"] = self._base.get("starting", 0.0) + now - self._left
            self._left = None
        else:
            mark = self._marks.get(step) or self._marks[min(self._marks)]
            self._base = dict(mark.seconds)
            self._base["lost"] = self._base.get("lost", 0.0) + now - mark.time
            self.add([WorkersReady(time=now)])
        self._now, self._held = dict(self._base), {}
        self._marks = {step: _Mark(now, dict(self._base))}
        return self.groups

    def update(self, group: int, seconds: Mapping[str, float], events: Sequence[Event]) -> None:
        """Take in what rank 0 says; an earlier group's word no longer counts."""
        if group != self.groups:
            return
        self._now = self._with(seconds)
        self.add(events)

    def wait(self, group: int, rank: int, step: int, world_size: int) -> bool:
        """Take in that a rank waits for rows after a step; return whether all ranks stop there.

        They do once the run was asked to stop while all of them wait after the same step. From
        then on every rank gets this answer: here, or from `go_on`.
        """
        if group != self.groups:
            return False
        self._waiting[rank] = step
        self._world_size = world_size
        is_everywhere = list(self._waiting.values()) == [step] * world_size
        self._all_leave = self._all_leave or bool(self.stop_reason and is_everywhere)
        return self._all_leave

    def go_on(self, group: int, rank: int) -> bool:
        """Take in that a rank that waited has its rows; return whether all ranks stop here."""
        if group != self.groups:
            return False
        if not self._all_leave:
            self._waiting.pop(rank, None)
        return self._all_leave

    @property
    def waiting_ranks(self) -> tuple[int, ...]:
        """Return the ranks that wait for rows, for which others have to wait; none if all do."""
        ranks = tuple(sorted(self._waiting))
        return ranks if len(ranks) < self._world_size else ()

    def mark(self, group: int, now: float, step: int, seconds: Mapping[str, float]) -> None:
        """Remember the time spent up to a checkpoint, in case that the group is lost after it."""
        if group == self.groups:
            self._marks[step] = _Mark(now, self._with(seconds))

    def report(self, now: float, reported: Reported, events: Sequence[Event]) -> None:
        """Record a report of the user's code; a new group resumes from its last checkpoint."""
        self.reported = self.reported.then(reported)
        self.add(events)
        if reported.checkpoint and self.groups:
            self._marks[self._joined_step] = _Mark(now, self.seconds(now))

    def start_over(self, now: float) -> None:
        """Take back that training was resumed: its function did not read the checkpoint."""
        point, self.reported = self.reported.resume_point, Reported()
        if point is None or self._began is None:
            return
        message = (
            f"not resumed from {point.checkpoint}: the training function did not call "
            "ray.train.get_checkpoint() before its first report. Load what that returns to resume"
        )
        self.add(
            [
                WarningEvent(time=now, message=message),
                self._began.model_copy(update={"resumed_from": None}),
            ]
        )

    def hold(self, bucket: str, seconds: float) -> None:
        """Take in how long a user's own loop was held up by something; it looked like training."""
        self._held[bucket] = self._held.get(bucket, 0.0) + seconds

    def lose(self, now: float, message: str) -> None:
        """Take in that workers were lost and will start again from the last checkpoint."""
        point = self.reported.resume_point
        if last := self._saved:
            point = ResumePoint(checkpoint=last.path, epoch=last.epoch, step=last.step)
        self.add([WorkersLost(time=now, message=message, resumed_from=point)])

    def end(self, now: float) -> None:
        """Take in that training is over; what follows is `stopping`."""
        self._now, self._held = self.seconds(now), {}
        self._left = now

    def leave(
        self, group: int, now: float, seconds: Mapping[str, float], ending: FunctionResult
    ) -> None:
        """Take in the end of the training function."""
        if group == self.groups:
            self.ending = ending
            self._stop_clock(now, seconds)

    def fail(self, group: int, now: float, seconds: Mapping[str, float], failure: Failure) -> None:
        """Take in what the user's function raised; the first one is the cause."""
        if group == self.groups and self.failure is None:
            self.failure = failure
            self._stop_clock(now, seconds)

    def seconds(self, now: float) -> Seconds:
        """Return where the time went until now.

        Before the first group all is `starting`, after the end the rest is `stopping`. While
        training goes on, what was not heard of yet counts as `training`; what workers measured by
        its end replaces that. Programs that measure nothing leave it there.
        """
        seconds = dict(self._now)
        if self._left is not None:
            seconds["stopping"] = seconds.get("stopping", 0.0) + now - self._left
            return seconds
        bucket = "training" if self.groups else "starting"
        rest = now - self.started - sum(seconds.values())
        seconds[bucket] = seconds.get(bucket, 0.0) + max(0.0, rest)
        return self._without_held(seconds)

    def measured(self, now: float) -> Seconds:
        """Return where the time went as far as workers said; where they say nothing, until now."""
        return self._without_held(self._now) if "training" in self._now else self.seconds(now)

    def _stop_clock(self, now: float, seconds: Mapping[str, float]) -> None:
        """Let what the workers measured stand as it is: nothing is filled up to the wall time."""
        self._now = self._without_held(self._with(seconds))
        self._held, self._left = {}, now

    def _without_held(self, seconds: Seconds) -> Seconds:
        """Return the seconds with what held a user's own loop up taken out of `training`."""
        out = dict(seconds)
        for reason, held in self._held.items():
            moved = min(held, out.get("training", 0.0))
            out["training"] = out.get("training", 0.0) - moved
            out[reason] = out.get(reason, 0.0) + moved
        return out

    def _with(self, seconds: Mapping[str, float]) -> Seconds:
        return self._base | {
            bucket: self._base.get(bucket, 0.0) + spent for bucket, spent in seconds.items()
        }
