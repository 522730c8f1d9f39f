"""Ray Train's own checkpoint manager takes an earlier attempt's checkpoint, and never harms it."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import JsonValue
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from trainshed.checkpoint import ray_snapshot


def make_attempt(folder: Path, name: str = "checkpoint_7", **metrics: JsonValue) -> Path:
    """Write what Ray Train leaves of an attempt; return its last checkpoint."""
    checkpoint = folder / name
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.pt").write_text("weights")
    (checkpoint / "inner").mkdir()
    (checkpoint / "inner" / "state.pt").write_text("state")
    result = {"checkpoint_dir_name": name, "metrics": metrics}
    snapshot = {"checkpoint_results": [result], "latest_checkpoint_result": result}
    (folder / ray_snapshot.SNAPSHOT).write_text(json.dumps(snapshot))
    return checkpoint


def make_manager(folder: Path, keep: int) -> CheckpointManager:
    """Return Ray Train's manager of the checkpoints below a folder, as a new attempt makes it."""
    storage = StorageContext(storage_path=str(folder.parent), experiment_dir_name=folder.name)
    return CheckpointManager(CheckpointConfig(num_to_keep=keep), storage)


def register(folder: Path, keep: int, *names: str) -> Path:
    """Let a new attempt's manager take in checkpoints; return the one that it started with."""

    async def run() -> Path:
        manager = make_manager(folder, keep)
        first = manager.latest_checkpoint_result
        assert first
        assert first.checkpoint
        for name in names:
            (folder / name).mkdir()
            report = _TrainingReport(
                checkpoint=Checkpoint(str(folder / name)), metrics={}, validation=False
            )
            manager.register_checkpoint(report)
        return Path(first.checkpoint.path)

    return asyncio.run(run())


def test_the_latest_checkpoint_of_an_attempt_is_found(tmp_path: Path) -> None:
    checkpoint = make_attempt(tmp_path / "1")

    assert ray_snapshot.latest(tmp_path / "1") == checkpoint


@pytest.mark.parametrize(
    "text",
    [None, "", '{"latest_checkpoint_result": ', "[]", "{}", '{"latest_checkpoint_result": null}'],
)
def test_without_a_readable_snapshot_there_is_no_checkpoint(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / ray_snapshot.SNAPSHOT).write_text(text)

    assert ray_snapshot.latest(tmp_path) is None


def test_a_registered_checkpoint_that_is_gone_is_none(tmp_path: Path) -> None:
    checkpoint = make_attempt(tmp_path)
    checkpoint.rename(tmp_path / "elsewhere")

    assert ray_snapshot.latest(tmp_path) is None


def test_ray_train_starts_with_the_earlier_checkpoint(tmp_path: Path) -> None:
    earlier = make_attempt(tmp_path / "1", loss=0.25)
    ray_snapshot.seed(tmp_path / "2", earlier)
    seen = register(tmp_path / "2", 3)

    assert seen == tmp_path / "2" / "resumed_from"
    assert (seen / "model.pt").read_text() == "weights"
    assert (seen / "inner" / "state.pt").read_text() == "state"


def test_rays_clean_up_does_not_touch_the_earlier_attempt(tmp_path: Path) -> None:
    earlier = make_attempt(tmp_path / "1")
    ray_snapshot.seed(tmp_path / "2", earlier)
    register(tmp_path / "2", 1, "checkpoint_a", "checkpoint_b")

    assert sorted(path.name for path in (tmp_path / "2").iterdir() if path.is_dir()) == [
        "checkpoint_b"
    ]
    assert (earlier / "model.pt").read_text() == "weights"
    assert (earlier / "inner" / "state.pt").read_text() == "state"


def test_metrics_that_came_with_a_checkpoint_are_known_again(tmp_path: Path) -> None:
    earlier = make_attempt(tmp_path / "1", epoch=2, loss=0.25, note="text")
    ray_snapshot.seed(tmp_path / "2", earlier)

    for checkpoint in (earlier, tmp_path / "2" / "resumed_from"):
        known = ray_snapshot.reported_at(checkpoint)
        assert (known.epoch, known.step, known.metrics) == (2, None, {"loss": 0.25})
        assert known.checkpoint == (str(checkpoint), 2, None)


def test_seeding_twice_is_once(tmp_path: Path) -> None:
    earlier = make_attempt(tmp_path / "1")
    ray_snapshot.seed(tmp_path / "2", earlier)
    register(tmp_path / "2", 3, "checkpoint_a")
    ray_snapshot.seed(tmp_path / "2", earlier)

    assert ray_snapshot.latest(tmp_path / "2") == tmp_path / "2" / "checkpoint_a"
