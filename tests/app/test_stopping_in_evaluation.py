"""A stop that comes in the middle of an evaluation costs nothing but that evaluation."""

from pathlib import Path

import pytest
import torch

from tests.app import stopped_evaluation
from tests.app.alone import Left, train_alone
from tests.app.failing_runs import make_data, make_spec, write_numbers
from trainshed.attempt.signals import Stop
from trainshed.worker import evaluation
from trainshed_api.names import STOPPED, SUCCEEDED
from trainshed_api.progress import CheckpointSaved, Evaluated

STEPS_IN_EPOCH = 5


def train(home: Path, *, stops: bool) -> Left:
    write_numbers(home)
    stopped_evaluation.stop = stop = Stop() if stops else None
    function = "tests.app.stopped_evaluation:train"
    # An evaluation may use half of the grace period to end; here it has none.
    data = make_data()
    spec = make_spec(train=function, config={}, data=data, gracePeriodSeconds=0)
    return train_alone(home, spec, stop=stop)


def last_checkpoint(left: Left) -> CheckpointSaved:
    return [event for event in left.events if isinstance(event, CheckpointSaved)][-1]


def evaluated(left: Left) -> list[tuple[int | None, dict[str, float | None]]]:
    found = [event for event in left.events if isinstance(event, Evaluated)]
    return [(event.step, event.metrics) for event in found]


def test_a_stop_in_an_evaluation_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SECONDS_BETWEEN_MEETINGS", 0.0)

    stopped = train(tmp_path / "a", stops=True)
    assert stopped.verdict.outcome == STOPPED
    assert stopped.verdict.message == "Suspended: stopped after step 10"
    assert last_checkpoint(stopped).step == 2 * STEPS_IN_EPOCH
    resumed = train(tmp_path / "a", stops=False)
    whole = train(tmp_path / "b", stops=False)

    assert (resumed.verdict.outcome, whole.verdict.outcome) == (SUCCEEDED, SUCCEEDED)
    assert [step for step, _ in evaluated(stopped)] == [STEPS_IN_EPOCH]
    assert evaluated(stopped) + evaluated(resumed) == evaluated(whole)
    weights, others = (
        torch.load(Path(last_checkpoint(left).path) / "model.pt") for left in (resumed, whole)
    )
    assert all(torch.equal(weights[name], others[name]) for name in others)
