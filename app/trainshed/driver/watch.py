"""Watches one attempt from the driver: shows events, keeps them, passes a stop on."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from trainshed.coordinator.hub import Reported
from trainshed.coordinator.reports import missing_best, told_by
from trainshed.driver.signals import FENCED
from trainshed.driver.sweep import Sweeper
from trainshed.driver.verdict import Verdict
from trainshed.patience import READS
from trainshed.records.folder import METRICS
from trainshed_api.names import APPLICATION, FAILED, STOPPED, SUCCEEDED
from trainshed_api.progress import (
    AnyEvent,
    BadRecords,
    CheckpointSaved,
    Event,
    Stopping,
    WarningEvent,
)

if TYPE_CHECKING:
    from trainshed.coordinator.actor import View
    from trainshed.coordinator.client import Client
    from trainshed.display.choice import Display
    from trainshed.driver.push import Pusher
    from trainshed.driver.signals import Stop
    from trainshed.plan.preflight import Prepared
    from trainshed.records.folder import Attempt

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


class Driver:
    """One attempt, seen from the process that started it."""

    def __init__(
        self,
        prepared: Prepared,
        attempt: Attempt,
        display: Display,
        stop: Stop,
        pusher: Pusher | None = None,
    ) -> None:
        self._prepared = prepared
        self._attempt = attempt
        self._pusher = pusher
        self._display = display
        self._stop = stop
        self._metrics = attempt.folder / METRICS
        self._events = attempt.folder.append(METRICS)
        self._misses_events = False
        self._sweeper = Sweeper(
            prepared.folder, attempt.number, prepared.spec.checkpoint, prepared.named
        )
        self.view: View | None = None
        # Which of the last records are on storage.
        self.written: set[str] = set()
        # How far the run came as far as events tell: all that is known when it does not say itself.
        self.told = Reported()
        self.bad_records: list[BadRecords] = []

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
                self.warn(f"{self._metrics} misses events: {error}")

    def warn(self, message: str) -> None:
        """Show what should be known and does not end the run."""
        self._tell(WarningEvent(time=time.time(), message=message))

    @property
    def fenced(self) -> bool:
        """Say whether another attempt has taken over."""
        return self._stop.reason == FENCED

    def watch(self, coordinator: Client, work: Work) -> Verdict:
        """Follow the work to its end; a stop is passed on and enforced after the grace period.

        A function with a loop of its own does not hear of it: the next checkpoint that it reports
        is its end.
        """
        deadline: float | None = None
        kept = None
        while work.is_alive():
            work.join(SECONDS_BETWEEN_LOOKS)
            self.look(coordinator)
            if fault := self._unranked():
                return fault
            if self._attempt.is_overtaken:
                self._stop.order(FENCED, 0.0)
            if self.fenced:
                return Verdict(STOPPED, f"{FENCED}: another attempt has taken over")
            if self._stop.reason and deadline is None:
                # Whoever waits for the end counts from when it was asked for, not from now.
                grace, deadline = self.grace_seconds, self.ends_at
                kept = self._own_checkpoint()
                coordinator.stop(self._stop.reason)
                self.show(Stopping(time=time.time(), reason=self._stop.reason, grace_seconds=grace))
            if deadline is not None and self._own_checkpoint() != kept:
                return Verdict(STOPPED, f"{self._stop.reason}: stopped after a checkpoint")
            if deadline is not None and time.monotonic() > deadline:
                message = f"{self._stop.reason}: no end within gracePeriodSeconds ({grace:g})"
                return Verdict(STOPPED, message)
        self.look(coordinator)
        return self._unranked() or self._verdict(work.error)

    def look(self, coordinator: Client) -> None:
        """Show what is new."""
        self.view = coordinator.look()
        if self._pusher:
            self._pusher.measure(self.view.seconds, self.view.waits_now)
            self._pusher.place(self.view.hosts)
        for event in self.view.events:
            self.told = self.told.then(told_by(event))
            if isinstance(event, BadRecords):
                self.bad_records.append(event)
            self.show(_known(event))
        if any(isinstance(event, CheckpointSaved) for event in self.view.events):
            self._sweeper.begin()

    def _unranked(self) -> Verdict | None:
        """Return the end of a run whose function reports checkpoints without the best's metric."""
        best = self._prepared.spec.checkpoint.best
        if best is None or self.view is None or self.view.reported.checkpoint is None:
            return None
        path = self.view.reported.checkpoint[0]
        if not any(isinstance(e, CheckpointSaved) and e.path == path for e in self.view.events):
            return None  # it is the one that was resumed from, or was judged already
        problem = missing_best(best, self.view.reported.metrics)
        return Verdict(FAILED, str(problem), str(problem), APPLICATION) if problem else None

    @property
    def grace_seconds(self) -> float:
        """Return how long the run may take to stop once it is asked to."""
        ordered = self._stop.grace_seconds
        return self._prepared.spec.grace_period_seconds if ordered is None else ordered

    @property
    def ends_at(self) -> float | None:
        """Return when that is over, by time.monotonic(); None where no stop was asked for."""
        return self._stop.ends_at(self._prepared.spec.grace_period_seconds)

    def _own_checkpoint(self) -> str | None:
        """Return the last checkpoint that a function reported itself; a command hears of stops."""
        if self._prepared.command or self.view is None or self.view.reported.checkpoint is None:
            return None
        return self.view.reported.checkpoint[0]

    def _verdict(self, error: Exception | None) -> Verdict:
        assert self.view
        failure, ending = self.view.failure, self.view.ending
        if failure:
            message = f"{failure.summary} (worker {failure.rank}, step {failure.step})"
            return Verdict(FAILED, message, failure.traceback, failure.cause)
        if error:
            return Verdict.crashed(error)
        if ending and ending.stopped:
            missing = f"; no checkpoint of {ending.unsaved}" if ending.unsaved else ""
            message = f"{self._stop.reason}: stopped after step {ending.step}{missing}"
            return Verdict(STOPPED, message)
        return Verdict(SUCCEEDED, "")

    def sweep(self) -> None:
        """Delete what nobody needs any more; the workers have ended."""
        self._sweeper.finish()
        if self._sweeper.problem:
            self.warn(self._sweeper.problem)

    def end_events(self) -> None:
        """Have all events on storage; what is shown from now on is not kept."""
        with contextlib.suppress(OSError):  # what a full disk did not take is said already
            READS.read(self._events.close)

    def close(self, last: AnyEvent) -> None:
        """Show the last event, which is kept already."""
        self._tell(last)
        self.end_events()

    def _tell(self, event: AnyEvent) -> None:
        self._display.show(event)
        if self._pusher:
            self._pusher.show(event)


def _known(event: Event) -> AnyEvent:
    return event  # type: ignore[return-value]  # the coordinator only holds events of the contract
