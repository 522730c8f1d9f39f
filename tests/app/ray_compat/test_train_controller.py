"""Which checkpoints Ray Train keeps: one without a score ranks last, and never ends an attempt."""

import asyncio
import json
import math
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.controller import controller
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from trainshed.checkpoint import ray_snapshot
from trainshed.ray_compat import train_controller
from trainshed.ray_compat.train_controller import TrainControllerHost, score_of
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.disk import Disk

UNKNOWN = [{}, *({"loss": value} for value in (None, math.nan, math.inf, -math.inf, "0.5"))]
FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("metrics", UNKNOWN, ids=str)
@given(value=FINITE)
def test_what_has_no_finite_score_ranks_last_in_both_modes(
    metrics: Mapping[str, object], mode: str, value: float
) -> None:
    assert score_of(metrics, "loss", mode) < score_of({"loss": value}, "loss", mode)


@given(one=FINITE, other=FINITE)
def test_the_better_score_ranks_higher(one: float, other: float) -> None:
    low, high = ({"loss": value} for value in sorted([one, other]))

    assert score_of(high, "loss", "max") >= score_of(low, "loss", "max")
    assert score_of(high, "loss", "min") <= score_of(low, "loss", "min")


def test_where_no_metric_decides_all_rank_alike() -> None:
    assert score_of({"loss": 1}, None, "max") == score_of({"loss": 2}, None, "max")


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_snapshot_with_null_for_a_score_does_not_end_the_attempt(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the release before left it: the first checkpoint was written between two evaluations.
    earlier, folder = Disk(tmp_path / "earlier"), Disk(tmp_path / "ray")
    (earlier / "checkpoint_1").write("model.pt", b"weights")
    metrics = {"valid.loss": None}
    result = {"checkpoint_dir_name": "checkpoint_1", "metrics": metrics}
    snapshot = {"checkpoint_results": [result], "latest_checkpoint_result": result}
    earlier.write(ray_snapshot.SNAPSHOT, json.dumps(snapshot).encode())
    ray_snapshot.seed(folder, earlier / "checkpoint_1")
    scores = {"checkpoint_2": 2.0, "checkpoint_3": 3.0, "checkpoint_4": None, "checkpoint_5": None}
    best = "checkpoint_2" if mode == "min" else "checkpoint_3"

    class Started:
        """Stands in for Ray Train's controller: makes the manager as that does."""

        def __init__(self, **_: object) -> None:
            filesystem, path = as_ray_has_it(folder.parent)
            config = CheckpointConfig(1, "valid.loss", mode)
            self.manager = controller.CheckpointManager(  # type: ignore[attr-defined]  # imported
                config, StorageContext(path, folder.name, filesystem)
            )

        async def run(self) -> None:
            for name, score in scores.items():
                (folder / name).write("model.pt", b"weights")
                filesystem, path = as_ray_has_it(folder / name)
                report = _TrainingReport(
                    checkpoint=Checkpoint(path, filesystem),
                    metrics={} if score is None else {"valid.loss": score},
                    validation=False,
                )
                self.manager.register_checkpoint(report)
            await asyncio.sleep(0)

        def get_result(self) -> set[str]:
            return set(folder.names())

    monkeypatch.setattr(controller, "CheckpointManager", CheckpointManager)
    monkeypatch.setattr(train_controller, "TrainController", Started)

    with closing(asyncio.new_event_loop()) as loop:
        monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)
        kept = cast("set[str]", TrainControllerHost({}).run())

    # The best one, and the latest, which Ray Train never deletes.
    assert kept & {*scores, ray_snapshot.LINKED} == {best, "checkpoint_5"}
