"""Boosting through losses: the trees are those of a run that was left alone."""

import hashlib
import json
from pathlib import Path

import pytest
import xgboost
from pydantic import JsonValue

from tests.app.alone import train_alone
from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head
from tests.app.ray_run import run_folder, trainshed, write_run
from tests.app.recovery import assert_lost_and_resumed, make_kills
from trainshed_api.names import EXIT_SUCCEEDED, SUCCEEDED
from trainshed_api.progress import Evaluated

ROUNDS = 24


def make_spec(
    folder: Path, config: dict[str, JsonValue] | None = None, workers: int = 2
) -> dict[str, JsonValue]:
    """Return a spec of 24 rounds with a checkpoint after each 4."""
    read: JsonValue = {"format": "parquet", "path": str(folder / "rows"), "columns": ["x", "y"]}
    return {
        "train": "tests.app.boosting_functions:boost",
        "framework": "xgboost",
        "config": {"rounds": ROUNDS, **(config or {})},
        "seed": 3,
        "workers": {"count": workers, "resources": {"cpu": "500m"}},
        "checkpoint": {"everySteps": 4, "keep": 2},
        "data": {"cpus": 1, "datasets": {"train": {"read": read}}},
    }


def model_of(run: Path) -> str:
    """Return the digest of the last model of a run's folder."""
    models = sorted(run.glob("attempts/*/ray/checkpoint_*/model.ubj"), key=lambda m: m.parent.name)
    assert models[-1].parent.name == f"checkpoint_{ROUNDS:09}_epoch0001"
    return hashlib.sha256(models[-1].read_bytes()).hexdigest()


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_losing_a_worker_and_then_the_driver_grows_the_same_trees(
    tmp_path: Path, head: Head
) -> None:
    write_rows(tmp_path / "rows", 400)
    left_alone = write_run(tmp_path, "plain", **make_spec(tmp_path))
    plain = trainshed("run", str(left_alone), environment=head.joining)
    assert plain.code == EXIT_SUCCEEDED, plain.stderr

    killed = tmp_path / "killed.yaml"
    write_run(tmp_path, "killed", **make_spec(tmp_path, make_kills(killed)))
    first = trainshed("run", str(killed), environment=head.joining)
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed), environment=head.joining)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert_lost_and_resumed(first, second)
    assert model_of(run_folder(killed)) == model_of(run_folder(left_alone))
    assert second.finished.metrics == plain.finished.metrics


def test_a_model_is_one_that_plain_xgboost_loads(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 200)

    spec = make_spec(tmp_path, workers=1)
    spec["data"] = {**spec["data"], "loader": "torch"}  # type: ignore[dict-item]  # JSON
    left = train_alone(tmp_path, spec)

    assert left.finished.outcome == SUCCEEDED, left.finished.message
    model = next(left.folder.path.glob("attempts/1/ray/*_epoch0001/model.ubj"))
    booster = xgboost.Booster(model_file=model)
    assert booster.num_boosted_rounds() == ROUNDS
    assert booster.feature_names == ["x.0", "x.1", "x.2", "x.3"]
    scores = [event.metrics["train.rmse"] for event in left.events if isinstance(event, Evaluated)]
    assert len(scores) == ROUNDS
    assert (scores[-1] or 0) < (scores[0] or 0) / 2
    assert json.loads(booster.attr("best_iteration") or "null") is not None
