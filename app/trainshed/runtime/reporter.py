"""Rank 0's voice: tells the coordinator how it goes, twice a second; the loop never waits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from trainshed_api.progress import Event, Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.runtime.client import Client


SECONDS_BETWEEN_CALLS = 0.5


@dataclass
class Scoreboard:
    """What the loop leaves for the reporter; every field is replaced or appended under the lock."""

    epochs: int | None
    steps: int | None = None
    epoch: int = 0
    step: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None
    data_wait_percent: float | None = None
    eta_seconds: float | None = None
    logged: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Turn what was logged since the last time into means; waits for the device."""
        with self.lock:
            logged, self.logged = self.logged, {}
        means = {name: _mean(values) for name, values in logged.items()}
        with self.lock:
            self.means.update(means)

    def known(self) -> dict[str, float]:
        """Return the last mean of all that was logged and settled."""
        with self.lock:
            return dict(self.means)


class Reporter:
    """Sends the scoreboard; `stop_reason` is what came back."""

    def __init__(self, coordinator: Client, group: int, board: Scoreboard) -> None:
        self._coordinator = coordinator
        self._group = group
        self._board = board
        self._ended = threading.Event()
        self._last_step = board.step
        self.stop_reason: str | None = None
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._ended.set()
        self._thread.join()
        self.send()

    def _run(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_CALLS):
            self.send()

    def send(self) -> None:
        """Send now what is there; waits until it is known."""
        board = self._board
        board.settle()
        with board.lock:
            events, board.events = board.events, []
            seconds = dict(board.seconds)
        if board.step != self._last_step:
            self._last_step = board.step
            events = [*events, self._progress()]
        self.stop_reason = self._coordinator.push(self._group, seconds, events)

    def _progress(self) -> Progress:
        board = self._board
        percent = int(100 * board.step / board.steps) if board.steps else None
        means = board.known()
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


def _mean(values: Sequence[torch.Tensor]) -> float:
    """Return the mean of scalars; mostly in the reporter's thread: a device is waited for."""
    return float(torch.stack([value.float() for value in values]).mean().item())
