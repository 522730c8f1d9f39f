"""Rank 0's reports: sends progress to the coordinator twice a second; the loop never waits."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainshed.worker.metric_means import Logged
from trainshed_api.progress import Event, Progress, StepName, WarningEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.coordinator.actor import Coordinator

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_CALLS = 0.5


@dataclass
class Scoreboard:
    """What the loop passes to the reporter; events are replaced or appended under the lock."""

    epochs: int | None
    steps: int | None = None
    step_name: StepName = "step"
    saves: bool = False  # whether a stop writes a checkpoint
    steps_begun: bool = False  # whether the function has requested a step
    epoch: int = 0
    step: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None
    data_wait_percent: float | None = None
    eta_seconds: float | None = None
    logged: Logged = field(default_factory=Logged)
    events: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Reporter:
    """Sends the scoreboard; `stop_reason` is the response."""

    def __init__(self, coordinator: Coordinator, group: int, board: Scoreboard) -> None:
        self._coordinator = coordinator
        self._group = group
        self._board = board
        self._ended = threading.Event()
        self._last_step = board.step
        self._has_complained = False
        self.stop_reason: str | None = None
        self._stop_heard_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    def seconds_since_stop(self) -> float:
        """Return the seconds since the first answer that asked for a stop; 0 before."""
        return 0.0 if self._stop_heard_at is None else time.monotonic() - self._stop_heard_at

    def close(self) -> None:
        """Send the rest and end the thread."""
        self._ended.set()
        self._thread.join()
        self._board.logged.flush()
        self.send()

    def _run(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_CALLS):
            try:
                self.send()
            except Exception as error:  # without this thread stops would be missed
                self._complain(error)

    def send(self) -> None:
        """Send the current state, and wait until it has arrived."""
        board = self._board
        board.logged.settle()
        with board.lock:
            events, board.events = board.events, []
            seconds = dict(board.seconds)
        step = board.step
        progress = [self._progress()] if step != self._last_step else []
        try:
            told = [*events, *progress]
            self.stop_reason = self._coordinator.push(
                self._group, seconds, told, saves=board.saves, steps_begun=board.steps_begun
            )
        except BaseException:
            with board.lock:
                board.events = [*events, *board.events]
            raise
        if self.stop_reason and self._stop_heard_at is None:
            self._stop_heard_at = time.monotonic()
        self._last_step = step

    def _complain(self, error: Exception) -> None:
        """Report once that progress could not be sent; later calls still ask for a stop."""
        if self._has_complained:
            return
        self._has_complained = True
        logger.exception("progress could not be sent")
        message = f"progress could not be sent for a while: {type(error).__name__}: {error}"
        with self._board.lock:
            self._board.events.append(WarningEvent(time=time.time(), message=message))

    def _progress(self) -> Progress:
        board = self._board
        percent = int(100 * board.step / board.steps) if board.steps else None
        means = board.logged.means()
        return Progress(
            time=time.time(),
            epoch=board.epoch,
            epochs=board.epochs,
            step=board.step,
            steps=board.steps,
            percent=percent,
            samples_per_second=board.rate,
            loss=means.get("loss"),
            metrics={**means},
            data_wait_percent=board.data_wait_percent,
            eta_seconds=board.eta_seconds,
        )
