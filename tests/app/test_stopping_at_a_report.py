"""A function with its own loop stops where it reports, or where it asks whether to stop."""

from pathlib import Path

import pytest

from tests.app import reporting_alone
from tests.app.alone import Left, train_alone
from trainshed.attempt.signals import Stop
from trainshed_api.names import STOPPED, SUCCEEDED


def train(
    home: Path,
    saves: tuple[int, ...],
    *,
    stops: bool = True,
    resumes: bool = False,
    function: str = "train",
) -> Left:
    reporting_alone.stop = stop = Stop() if stops else None
    reporting_alone.saves, reporting_alone.resumes = saves, resumes
    reporting_alone.done.clear()
    return train_alone(home, {"train": f"tests.app.reporting_alone:{function}"}, stop=stop)


WAYS: dict[str, tuple[tuple[int, ...], int]] = {
    "that saves nothing stops at its next report": ((), 3),
    "that saves checkpoints stops at the next one": ((1, 5, 8), 5),
    "that saves one when it is asked to stop stops there": ((3,), 3),
}


@pytest.mark.parametrize("case", WAYS)
def test_a_function(case: str, tmp_path: Path) -> None:
    saves, want = WAYS[case]
    left = train(tmp_path, saves)

    assert reporting_alone.done == list(range(1, want + 1))
    assert left.verdict.outcome == STOPPED
    assert left.verdict.message == f"Suspended: stopped after step {want}"
    assert left.finished.metrics["loss"] == pytest.approx(1 / want)


def test_a_function_that_resumed_from_its_own_checkpoint_stops_at_the_next(tmp_path: Path) -> None:
    train(tmp_path, (7,), resumes=True)

    assert reporting_alone.done == list(range(1, 8))


def test_a_function_that_nobody_stops_reports_to_its_end(tmp_path: Path) -> None:
    left = train(tmp_path, (), stops=False)

    assert reporting_alone.done == list(range(1, reporting_alone.STEPS + 1))
    assert left.verdict.outcome == SUCCEEDED
    assert not left.steps_begun  # its loop is its own: no step of the run is expected


def test_a_function_that_returns_when_it_wants_to_stop_ends_as_stopped(tmp_path: Path) -> None:
    left = train(tmp_path, (), function="train_and_return")

    assert reporting_alone.done == [1, 2, 3]
    assert left.verdict.outcome == STOPPED


def test_a_function_that_asks_and_is_not_stopped_succeeds(tmp_path: Path) -> None:
    left = train(tmp_path, (), stops=False, function="train_and_return")

    assert left.verdict.outcome == SUCCEEDED
