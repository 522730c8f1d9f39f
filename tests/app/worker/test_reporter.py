"""Rank 0's voice: what is logged becomes means, what happens becomes events, a stop comes back."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from trainshed.worker.reporter import Reporter, Scoreboard
from trainshed_api.progress import Event, Progress, WarningEvent

if TYPE_CHECKING:
    from trainshed.coordinator import actor


@dataclass
class Coordinator:
    """Takes in what a reporter sends; stands for the actor, which at first may fail."""

    stop: str | None = None
    failures: int = 0
    events: list[Event] = field(default_factory=list)
    seconds: list[dict[str, float]] = field(default_factory=list)
    saved: list[bool] = field(default_factory=list)
    steps_begun: bool = False
    heard: threading.Event = field(default_factory=threading.Event)

    def push(
        self,
        group: int,
        seconds: Mapping[str, float],
        events: Sequence[Event],
        *,
        saves: bool,
        steps_begun: bool,
    ) -> str | None:
        """Take it in."""
        self.saved.append(saves)
        self.steps_begun = steps_begun
        assert group == 3
        if self.failures:
            self.failures -= 1
            raise ConnectionError("away")
        self.seconds.append(dict(seconds))
        self.events.extend(events)
        self.heard.set()
        return self.stop


def make_reporter(board: Scoreboard, coordinator: Coordinator) -> Reporter:
    return Reporter(cast("actor.Coordinator", coordinator), 3, board)


def test_an_end_sends_all_that_is_left() -> None:
    board, coordinator = Scoreboard(epochs=2, steps=8), Coordinator()
    reporter = make_reporter(board, coordinator)
    board.epoch, board.step, board.seconds = 1, 4, {"training": 2.0}
    board.logged.add("loss", 1.0, 4)
    with board.lock:
        board.events.append(WarningEvent(time=1.0, message="look"))
    reporter.close()

    warning, progress = coordinator.events
    assert isinstance(warning, WarningEvent)
    assert isinstance(progress, Progress)
    assert (progress.epoch, progress.step, progress.percent, progress.loss) == (1, 4, 50, 1.0)
    assert coordinator.seconds[-1] == {"training": 2.0}


def test_no_step_is_no_progress() -> None:
    board, coordinator = Scoreboard(epochs=2, step=7), Coordinator()
    make_reporter(board, coordinator).close()

    assert coordinator.events == []


def test_a_reason_to_stop_comes_back() -> None:
    coordinator = Coordinator(stop="Interrupted")
    reporter = make_reporter(Scoreboard(epochs=1, saves=True), coordinator)
    assert reporter.stop_reason is None
    assert coordinator.heard.wait(30)
    reporter.close()

    assert set(coordinator.saved) == {True}
    assert reporter.stop_reason == "Interrupted"


def test_a_failure_to_tell_is_said_once_and_a_stop_is_heard_after_it() -> None:
    coordinator = Coordinator(stop="Interrupted", failures=3)
    board = Scoreboard(epochs=1)
    with board.lock:
        board.events.append(WarningEvent(time=1.0, message="look"))
    reporter = make_reporter(board, coordinator)
    assert coordinator.heard.wait(30)
    reporter.close()

    assert reporter.stop_reason == "Interrupted"
    said = [event.message for event in coordinator.events if isinstance(event, WarningEvent)]
    assert said == ["look", "progress could not be sent for a while: ConnectionError: away"]


def test_that_a_step_was_asked_for_is_told() -> None:
    coordinator = Coordinator()

    make_reporter(Scoreboard(epochs=1, steps_begun=True), coordinator).close()

    assert coordinator.steps_begun
