"""A stop in any step of README's own example leaves a run that goes on as if nobody had asked."""

from pathlib import Path

import pytest
import ray.train
import torch
from pydantic import JsonValue

from tests.app import stopped_example
from tests.app.alone import Left, train_alone
from trainshed.attempt.signals import Stop
from trainshed.checkpoint import store as checkpoint
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed_api.names import STOPPED, SUCCEEDED
from trainshed_api.progress import CheckpointSaved

EPOCHS, STEPS_IN_EPOCH = 2, 3
STEPS = EPOCHS * STEPS_IN_EPOCH


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that the example reports."""
    epochs: list[int] = []
    report = ray.train.report

    def noted(metrics: dict[str, int], **options: object) -> None:
        if "epoch" in metrics:
            epochs.append(metrics["epoch"])
        report(metrics, **options)

    monkeypatch.setattr(ray.train, "report", noted)
    return epochs


def train(home: Path, *, stops_after: int | None, **checkpoints: JsonValue) -> Left:
    stopped_example.stop = stop = None if stops_after is None else Stop()
    stopped_example.steps_before = stops_after or 0
    write_digits(Disk(home))
    decode: JsonValue = {
        "use": "trainshed.transforms:decode_image",
        "options": {"size": 8, "mode": "L"},
    }
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["image", "label"]}
    spec: dict[str, JsonValue] = {
        "train": "tests.app.stopped_example:train",
        "config": {"learningRate": 0.001},
        "epochs": EPOCHS,
        "batchSize": 479,
        "workers": {"count": 1, "resources": {"cpu": "500m"}},
        "checkpoint": {"everyEpochs": 1, **checkpoints},
        "data": {
            "cpus": 1,
            "datasets": {"train": {"read": read, "transforms": [decode]}},
        },
    }
    return train_alone(home, spec, stop=stop)


def last_weights(*attempts: Left) -> dict[str, torch.Tensor]:
    events = [event for attempt in attempts for event in attempt.events]
    saved = [event for event in events if isinstance(event, CheckpointSaved)]
    weights: dict[str, torch.Tensor] = torch.load(Path(saved[-1].path) / "model.pt")
    return weights


def test_a_run_goes_on_after_a_stop_in_the_last_step_of_an_epoch(
    tmp_path: Path, reported: list[int]
) -> None:
    whole = train(tmp_path / "whole", stops_after=None)

    for steps_before in (STEPS_IN_EPOCH - 1, STEPS - 1):
        reported.clear()
        home = tmp_path / str(steps_before)
        stopped = train(home, stops_after=steps_before)
        resumed = train(home, stops_after=None)

        assert stopped.verdict.outcome == STOPPED
        assert resumed.verdict.outcome == SUCCEEDED, resumed.verdict.message
        assert reported == [1, 2]
        last, want = last_weights(stopped, resumed), last_weights(whole)
        assert all(torch.equal(last[name], want[name]) for name in want)


def test_no_checkpoint_stands_between_an_epochs_last_step_and_its_end(
    tmp_path: Path, reported: list[int]
) -> None:
    left = train(tmp_path, stops_after=None, everyEpochs=0, everySteps=STEPS_IN_EPOCH, keep=10)

    written = checkpoint.candidates([left.folder.checkpoints(1)])
    positions = [checkpoint.verify(each).position for each in written]
    assert sorted((at.epoch, at.step_in_epoch) for at in positions) == [(1, 0), (2, 0)]
    assert reported == [1, 2]
