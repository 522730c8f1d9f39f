"""Watches one attempt from the driver: shows events, keeps them, passes a stop on."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from trainshed.attempt.result import AttemptResult
from trainshed.attempt.retention import Retention
from trainshed.attempt.signals import FENCED
from trainshed.coordinator.ray_reports import missing_best, told_by
from trainshed.coordinator.run_state import Reported
from trainshed.display.formatting import say_resume
from trainshed.retry import READS
from trainshed.storage.run_folder import METRICS
from trainshed_api.names import APPLICATION, FAILED, INFRASTRUCTURE, STOPPED, SUCCEEDED
from trainshed_api.progress import (
    AnyEvent,
    BadRecords,
    CheckpointSaved,
    Stopping,
    StopsWith,
    WarningEvent,
)

if TYPE_CHECKING:
    from trainshed.attempt.signals import Stop
    from trainshed.attempt.snapshot_publisher import SnapshotPublisher
    from trainshed.coordinator.actor import Coordinator, View
    from trainshed.display.choice import Display
    from trainshed.planning.preflight import Prepared
    from trainshed.storage.run_folder import ClaimedAttempt
    from trainshed.tracking.session import Tracking

SECONDS_BETWEEN_LOOKS = 0.25


class Work(Protocol):
    """What the driver waits for."""

    error: Exception | None

    def is_alive(self) -> bool:
        """Say whether it goes on."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        ...


@dataclass
class AttemptMonitor:
    """One attempt, seen from the process that started it."""

    prepared: Prepared
    attempt: ClaimedAttempt
    display: Display
    stop: Stop
    publisher: SnapshotPublisher | None = None
    view: View | None = None
    tracking: Tracking | None = None
    # Which of the last records are on storage.
    written: set[str] = field(default_factory=set)
    # How far the run came as far as events tell: all that is known when it does not say itself.
    told: Reported = field(default_factory=Reported)
    bad_records: list[BadRecords] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open metrics.jsonl, and look which checkpoints of earlier attempts may be deleted."""
        self._events = self.attempt.folder.append(METRICS)
        self._misses_events = False
        self._retention = Retention(
            self.prepared.folder,
            self.attempt.number,
            self.prepared.spec.checkpoint,
            self.prepared.named,
        )

    def show(self, event: AnyEvent) -> None:
        """Show an event and keep it."""
        self.keep(event)
        self._tell(event)

    def keep(self, event: AnyEvent) -> None:
        """Add an event to metrics.jsonl; a full disk is said once and ends nothing."""
        try:
            self._events.write(event.to_line() + "\n")
            self._events.flush()
        except OSError as error:
            if not self._misses_events:
                self._misses_events = True
                self.warn(f"{self.attempt.folder / METRICS} misses events: {error}")

    def warn(self, message: str) -> None:
        """Show what should be known and does not end the run."""
        self._tell(WarningEvent(time=time.time(), message=message))

    @property
    def fenced(self) -> bool:
        """Say whether another attempt has taken over."""
        return self.stop.reason == FENCED

    def watch(self, coordinator: Coordinator, work: Work) -> AttemptResult:
        """Follow the work to its end; a stop is passed on and enforced after the grace period.

        A function with its own loop that saves checkpoints ends with the next one that it
        reports. Before the workers have begun there is nothing to wait for, and nobody is waited
        for after a second signal. Without its coordinator nobody can go on.
        """
        from ray.exceptions import RayActorError

        try:
            return self._follow(coordinator, work)
        except RayActorError:
            message = (
                f"the coordinator process of the run was lost; {self._newest_checkpoint()}. Run "
                "the same command again to resume"
            )
            return AttemptResult(FAILED, message, cause=INFRASTRUCTURE)

    def _follow(self, coordinator: Coordinator, work: Work) -> AttemptResult:
        kept: str | None = None
        until: StopsWith | None = None
        while work.is_alive():
            work.join(SECONDS_BETWEEN_LOOKS)
            self.look(coordinator)
            if fault := self._unranked():
                return fault
            if self.attempt.is_overtaken:
                self.stop.order(FENCED, 0.0)
            if self.fenced:
                return AttemptResult(STOPPED, f"{FENCED}: another attempt has taken over")
            if self.stop.reason and until is None:
                if not self.prepared.command and self.view and not self.view.groups:
                    return self.stop_before_training()
                kept, until = self._own_checkpoint(), self._stops_with()
                coordinator.stop(self.stop.reason)
                self._say_stopping(until)
            elif until == "checkpoint" and self._stops_with() == "rows":
                until = "rows"
                self._say_stopping(until)
            if until and (ended := self._ended_from_here(kept)):
                return ended
        self.look(coordinator)
        return self._unranked() or self._verdict(work.error)

    def _ended_from_here(self, kept: str | None) -> AttemptResult | None:
        """Return the end of a run that the driver ends itself, once there is a reason.

        kept: the function's last checkpoint when the stop was requested.
        """
        reason, end = self.stop.reason, self.ends_at
        if self._own_checkpoint() not in (None, kept):
            return AttemptResult(STOPPED, f"{reason}: stopped {self._place()}")
        if self.stop.at_once:
            said = "ended at once by a second signal"
        # Whoever waits for the end counts from when it was asked for, not from when it was seen.
        elif end is not None and time.monotonic() > end:
            said = f"no end within gracePeriodSeconds ({self.grace_seconds:g})"
            if self.view and (ranks := self.view.waiting_ranks):
                said += f", because rows for rank {', '.join(map(str, ranks))} did not arrive"
        else:
            return None
        return AttemptResult(STOPPED, f"{reason}: {said}; {self._newest_checkpoint()}")

    def stop_before_training(self) -> AttemptResult:
        """Return the end of a run that was asked to stop while it was being started."""
        if self.fenced:
            return AttemptResult(STOPPED, f"{FENCED}: another attempt has taken over")
        self._say_stopping("end")
        return AttemptResult(STOPPED, f"{self.stop.reason}: stopped before training began")

    def _say_stopping(self, until: StopsWith) -> None:
        reason, grace = self.stop.reason or "", self.grace_seconds
        self.show(Stopping(time=time.time(), reason=reason, grace_seconds=grace, until=until))

    def _stops_with(self) -> StopsWith:
        """Return what ends the run, by what its function did so far."""
        if self.prepared.command or self.view is None:
            return "end"
        if self.view.saves:
            return "rows" if self.view.waiting_ranks else "checkpoint"
        if self.told.checkpoint or self.view.reported.checkpoint:
            return "reportedCheckpoint"
        return "report" if self.view.reported != Reported() else "end"

    def _place(self) -> str:
        """Return how far training came, by what its loop counted or its function reported."""
        known = self.known
        if known.step is not None:
            return f"after step {known.step}"
        if known.epoch is not None:
            return f"after epoch {known.epoch}"
        has_reported = self.view is not None and self.view.reported != Reported()
        return "after a report" if has_reported else "before the first step"

    def _newest_checkpoint(self) -> str:
        point = self.known.resume_point
        if point is None:
            return "this attempt wrote no checkpoint"
        return f"the newest checkpoint is that of {say_resume(point)}"

    @property
    def known(self) -> Reported:
        """Return how far it came: what the loop counted, and what only events and reports say."""
        view = self.view
        if view is None:
            return Reported()
        known = self.told.then(view.reported)
        if view.failure:
            known = known.then(Reported(step=view.failure.step or None))
        if view.ending is None:
            return known
        ending = view.ending
        counted = Reported(
            ending.epoch or None, ending.step or None, ending.metrics, ending.checkpoint
        )
        return known.then(counted)

    def look(self, coordinator: Coordinator) -> None:
        """Show what is new."""
        self.view = coordinator.look()
        if self.publisher:
            self.publisher.measure(
                self.view.seconds, self.view.waits_now, steps_begun=self.view.steps_begun
            )
            self.publisher.place(self.view.hosts)
        for event in self.view.events:
            self.told = self.told.then(told_by(event))
            if isinstance(event, BadRecords):
                self.bad_records.append(event)
            # The coordinator only holds events of the contract.
            self.show(cast("AnyEvent", event))
        if any(isinstance(event, CheckpointSaved) for event in self.view.events):
            self._retention.begin()
        for message in self.tracking.warnings() if self.tracking else ():
            self.show(WarningEvent(time=self.view.time, message=message))

    def _unranked(self) -> AttemptResult | None:
        """Return the end of a run whose function reports checkpoints without the best's metric."""
        best = self.prepared.spec.checkpoint.best
        if best is None or self.view is None or self.view.reported.checkpoint is None:
            return None
        path = self.view.reported.checkpoint[0]
        if not any(isinstance(e, CheckpointSaved) and e.path == path for e in self.view.events):
            return None  # it is the one that was resumed from, or was judged already
        problem = missing_best(best, self.view.reported.metrics)
        return AttemptResult(FAILED, str(problem), str(problem), APPLICATION) if problem else None

    @property
    def grace_seconds(self) -> float:
        """Return how long the run may take to stop once it is asked to."""
        ordered = self.stop.grace_seconds
        return self.prepared.spec.grace_period_seconds if ordered is None else ordered

    @property
    def ends_at(self) -> float | None:
        """Return when that is over, by time.monotonic(); None where no stop was asked for."""
        return self.stop.ends_at(self.prepared.spec.grace_period_seconds)

    def _own_checkpoint(self) -> str | None:
        """Return the last checkpoint that a function reported itself; a command hears of stops."""
        if self.prepared.command or self.view is None or self.view.reported.checkpoint is None:
            return None
        return self.view.reported.checkpoint[0]

    def _verdict(self, error: Exception | None) -> AttemptResult:
        assert self.view
        failure, ending = self.view.failure, self.view.ending
        if failure:
            message = f"{failure.summary} (worker {failure.rank}, step {failure.step})"
            return AttemptResult(FAILED, message, failure.traceback, failure.cause)
        if error:
            return AttemptResult.crashed(error)
        if ending and ending.stopped:
            missing = f"; no checkpoint of {ending.unsaved}" if ending.unsaved else ""
            message = f"{self.stop.reason}: stopped {self._place()}{missing}"
            return AttemptResult(STOPPED, message)
        return AttemptResult(SUCCEEDED, "")

    def sweep(self) -> None:
        """Delete what nobody needs any more; the workers have ended."""
        self._retention.finish()
        if self._retention.problem:
            self.warn(self._retention.problem)

    def end_events(self) -> None:
        """Have all events on storage; what is shown from now on is not kept."""
        with contextlib.suppress(OSError):  # what a full disk did not take is said already
            READS.read(self._events.close)

    def close(self, last: AnyEvent) -> None:
        """Show the last event, which is kept already."""
        self._tell(last)
        self.end_events()

    def _tell(self, event: AnyEvent) -> None:
        self.display.show(event)
        if self.publisher:
            self.publisher.show(event)
        if self.tracking:
            self.tracking.show(event)
