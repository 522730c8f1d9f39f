"""Logs the events of one attempt to its trackers, from one thread for each of them.

A tracker that is down or slow must not hold up the run: points wait in memory, up to a limit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed.tracking.tracker import SECONDS_TO_END, Point, TrackedRun, Tracker, metric_name
from trainshed_api.progress import Evaluated, Progress, Started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed_api.names import Outcome
    from trainshed_api.progress import AnyEvent
    from trainshed_api.tracking import TrackingSpec

MOST_WAITING = 10_000
SECONDS_BETWEEN_TRIES = 10.0


def trackers_of(spec: TrackingSpec) -> Iterator[Tracker]:
    """Yield the trackers that a spec names; others are not imported."""
    if spec.tensorboard:
        from trainshed.tracking.on_tensorboard import TensorBoard

        yield TensorBoard()
    if spec.mlflow:
        from trainshed.tracking.on_mlflow import MLflow

        yield MLflow(spec.mlflow)
    if spec.wandb:
        from trainshed.tracking.on_wandb import Wandb

        yield Wandb(spec.wandb)


class Tracking:
    """The trackers of one attempt.

    Args:
        trackers: of it.
        run: what they log; its step is that of the event that says where training begins.
        seconds_between_tries: of a tracker that fails.
    """

    def __init__(
        self,
        trackers: Sequence[Tracker],
        run: TrackedRun,
        seconds_between_tries: float = SECONDS_BETWEEN_TRIES,
    ) -> None:
        self._trackers = trackers
        self._run = run
        self._seconds_between = seconds_between_tries
        self._warnings: deque[str] = deque()
        self._loggers: list[_Logger] = []
        self._step = -1

    def show(self, event: AnyEvent) -> None:
        """Log an event; this never waits. The first event of an attempt says where it begins."""
        if isinstance(event, Started) and not self._loggers:
            resumed = event.resumed_from
            run = replace(self._run, step=(resumed.step or 0) if resumed else 0)
            self._loggers = [
                _Logger(tracker, run, self._warnings, self._seconds_between)
                for tracker in self._trackers
            ]
        elif isinstance(event, Progress | Evaluated) and (values := dict(_values(event))):
            # A function with its own loop may count epochs only, or nothing.
            counted = event.step if event.step is not None else event.epoch
            self._step = self._step + 1 if counted is None else counted
            for logger in self._loggers:
                logger.add(Point(self._step, event.time, values))

    def warnings(self) -> Iterator[str]:
        """Yield what went wrong since the last call."""
        while self._warnings:
            yield self._warnings.popleft()

    def end(self, outcome: Outcome, facts: Mapping[str, str], until: float | None = None) -> None:
        """Log the result, and wait for the trackers, but not for long.

        until: when the grace period ends, by time.monotonic(), if the run was asked to stop.
        """
        now = time.monotonic()
        deadline = now + SECONDS_TO_END
        if until is not None:
            deadline = min(deadline, max(until, now + 1))
        for logger in self._loggers:
            logger.end(outcome, facts)
        for logger in self._loggers:
            logger.wait(deadline)


class _Logger(threading.Thread):
    """Calls one tracker."""

    def __init__(
        self, tracker: Tracker, run: TrackedRun, warnings: deque[str], seconds_between: float
    ) -> None:
        super().__init__(name=f"log to {tracker.name}", daemon=True)
        self._tracker = tracker
        self._tracked = run
        self._warnings = warnings
        self._seconds_between = seconds_between
        self._waiting: list[Point] = []
        self._lost = 0
        # The last step of each metric; None until the tracked run exists.
        self._last: dict[str, int] | None = None
        self._ending: tuple[Outcome, Mapping[str, str]] | None = None
        self._changed = threading.Condition()
        self._has_warned = False
        self.start()

    def add(self, point: Point) -> None:
        with self._changed:
            self._waiting.append(point)
            self._drop_oldest()
            self._changed.notify()

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        with self._changed:
            self._ending = (outcome, facts)
            self._changed.notify()

    def wait(self, deadline: float) -> None:
        self.join(max(0.0, deadline - time.monotonic()))
        if self.is_alive():
            self._warn("did not take the last metrics in time")
        if self._lost:
            missing = f"{self._tracker.name} misses the metrics of {self._lost} steps"
            self._warnings.append(f"spec.tracking: {missing}")

    def _drop_oldest(self) -> None:
        excess = max(0, len(self._waiting) - MOST_WAITING)
        del self._waiting[:excess]
        self._lost += excess

    def run(self) -> None:
        """Log until the end; after a failure wait, and log the same points again."""
        while True:
            points, ending = self._take()
            try:
                if self._last is None:
                    self._last = dict(self._tracker.begin(self._tracked))
                last = dict(self._last)
                if new := list(_unseen(points, last)):
                    self._tracker.log(new)
                self._last, points = last, []
                if ending:
                    self._tracker.end(*ending)
                    return
            except Exception as error:  # of any library; a tracker must not end a run
                again = "Training continues, and the metrics are sent again"
                self._warn(f"{type(error).__name__}: {error}. {again}")
                with self._changed:
                    self._waiting = points + self._waiting
                    self._drop_oldest()
                    if ending:
                        self._lost += len(self._waiting)
                        return
                    self._changed.wait_for(lambda: self._ending is not None, self._seconds_between)

    def _take(self) -> tuple[list[Point], tuple[Outcome, Mapping[str, str]] | None]:
        """Return the points that wait, and the end; wait for one of them once the run has begun."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._last is None or bool(self._waiting) or self._ending is not None
            )
            points, self._waiting = self._waiting, []
            return points, self._ending

    def _warn(self, what: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warnings.append(f"spec.tracking: {self._tracker.name}: {what}")


def _values(event: Progress | Evaluated) -> Iterator[tuple[str, float]]:
    values = dict(event.metrics)
    if isinstance(event, Progress):
        values |= {
            "loss": event.metrics.get("loss", event.loss),
            "epoch": event.epoch,
            "samplesPerSecond": event.samples_per_second,
            "dataWaitPercent": event.data_wait_percent,
        }
    for name, value in values.items():
        if value is not None:
            yield metric_name(name), value


def _unseen(points: Sequence[Point], last: dict[str, int]) -> Iterator[Point]:
    """Yield the points without the steps of a metric that were logged, and are trained again.

    last: step of each metric that was logged; it is brought up to date.
    """
    for point in points:
        values = {n: v for n, v in point.values.items() if point.step > last.get(n, -1)}
        last |= dict.fromkeys(values, point.step)
        if values:
            yield replace(point, values=values)
