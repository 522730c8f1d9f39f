"""What the attempts of a run log, from their worker to event files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from examples.adopt import after
from tests.app.alone import Left, train_alone
from tests.app.tracking.event_files import read_scalars, read_tables
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed.worker.active_run import running
from trainshed.worker.current import Run
from trainshed_api.names import FAILED, SUCCEEDED

if TYPE_CHECKING:
    from pydantic import JsonValue

EPOCHS, STEPS_IN_EPOCH = 4, 3
# The step in which the function fails; None: it does not.
fails_in: int | None = None


def train(config: dict[str, float]) -> None:
    """Train README's own example with a logged loss, and fail in a step of it."""
    run = running()
    assert isinstance(run, Run)
    take_step = run.backward_step

    def log_step(loss: torch.Tensor) -> None:
        if run.step == fails_in:
            raise RuntimeError("killed")
        run.log(loss=loss)
        take_step(loss)

    run.backward_step = log_step  # type: ignore[method-assign, assignment]
    after.train(config)


def train_until(home: Path, step: int | None, *, fresh: bool = False) -> Left:
    global fails_in  # noqa: PLW0603  # the function is found by its name
    fails_in = step
    decode: JsonValue = {
        "use": "trainshed.transforms:decode_image",
        "options": {"size": 8, "mode": "L"},
    }
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["image", "label"]}
    spec: dict[str, JsonValue] = {
        "train": f"{__name__}:train",
        "config": {
            "learningRate": 0.001,
            "scale": {"layer[0]/": 0.5},
            "hubToken": "hidden",
            "url": "https://me:hidden@host/a",
        },
        "epochs": EPOCHS,
        "batchSize": 479,
        "workers": {"count": 1, "resources": {"cpu": "500m"}},
        "data": {"cpus": 1, "datasets": {"train": {"read": read, "transforms": [decode]}}},
        "tracking": {"tensorboard": {}},
    }
    return train_alone(home, spec, fresh=fresh)


def test_a_run_that_failed_twice_is_one_tracked_run(tmp_path: Path) -> None:
    write_digits(Disk(tmp_path))
    outcomes = [train_until(tmp_path, step).verdict.outcome for step in (4, 8, None)]
    last = train_until(tmp_path, None, fresh=True)

    assert outcomes == [FAILED, FAILED, SUCCEEDED]
    folder = last.path / "tensorboard"
    assert sorted(each.name for each in folder.iterdir()) == ["1", "4"]
    losses = [step for step, _ in read_scalars(folder / "1")["loss"]]
    assert losses == sorted(set(losses))
    assert losses[-1] == EPOCHS * STEPS_IN_EPOCH
    tables = read_tables(folder / "1")
    assert "| config.learningRate | 0.001 |" in tables["parameters"]
    assert "| config.scale.layer_0__ | 0.5 |" in tables["parameters"]
    assert "| config.url | https://host/a |" in tables["parameters"]
    assert "hidden" not in str(tables)
    assert "| data.train.fingerprint | " in tables["run"]
    assert "| outcome | Succeeded |" in tables["result"]
    assert f"| report | {last.path}/report.html |" in tables["result"]


def reports_nothing() -> None:
    """Train nothing."""


def test_a_run_without_trackers_imports_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trackers = ("tensorboardX", "wandb", "trainshed.tracking")
    for name in [name for name in sys.modules if name.startswith(trackers)]:
        monkeypatch.delitem(sys.modules, name)

    left = train_alone(tmp_path, {"train": f"{__name__}:reports_nothing"})

    assert left.verdict.outcome == SUCCEEDED
    assert [name for name in sys.modules if name.startswith(trackers)] == []
