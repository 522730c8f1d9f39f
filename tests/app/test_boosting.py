"""Boosting through losses: the trees are those of a run that was left alone."""

import json
from pathlib import Path

import pytest
import xgboost
from pydantic import JsonValue

from tests.app import train_functions
from tests.app.alone import train_alone
from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head
from tests.app.ray_run import run_folder, trainshed, write_run
from tests.app.recovery import RESUMED_AT, assert_lost_and_resumed, make_kills
from trainshed.attempt.signals import Stop
from trainshed_api.names import EXIT_SUCCEEDED, STOPPED, SUCCEEDED
from trainshed_api.progress import Evaluated, WarningEvent

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


def last_model(run: Path) -> xgboost.Booster:
    """Return the model of all rounds in a run's folder."""
    models = sorted(run.glob("attempts/*/ray/checkpoint_*/model.ubj"), key=lambda m: m.parent.name)
    assert models[-1].parent.name == f"checkpoint_{ROUNDS:09}_epoch0001"
    return xgboost.Booster(model_file=models[-1])


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_after_a_lost_worker_and_a_lost_driver_more_workers_go_on_with_the_same_trees(
    tmp_path: Path, head: Head
) -> None:
    """Joins a Ray three times: nobody disturbs the first run, whose trees are compared."""
    write_rows(tmp_path / "rows", 400)
    undisturbed = write_run(tmp_path, "plain", **make_spec(tmp_path))
    plain = trainshed("run", str(undisturbed), environment=head.joining)
    assert plain.code == EXIT_SUCCEEDED, plain.stderr

    killed = tmp_path / "killed.yaml"
    write_run(tmp_path, "killed", **make_spec(tmp_path, make_kills(killed)))
    first = trainshed("run", str(killed), environment=head.joining)
    assert first.code == -9, first.stderr
    more = ("--set", "spec.workers.count=3")
    second = trainshed("run", str(killed), *more, environment=head.joining)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert_lost_and_resumed(first, second)
    trees, wanted_trees = (last_model(run_folder(file)) for file in (killed, undisturbed))
    assert trees[:RESUMED_AT].get_dump() == wanted_trees[:RESUMED_AT].get_dump()
    said = [event.message for event in second.events if isinstance(event, WarningEvent)]
    assert any("3 workers go on with trees that 2 have grown" in message for message in said)
    reached, wanted = (each.finished.metrics["train.rmse"] for each in (second, plain))
    assert reached == pytest.approx(wanted, rel=0.2)


def test_a_suspended_run_goes_on_with_the_same_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "rows", 200)
    spec = make_spec(tmp_path, {"suspendAt": 9}, workers=1)

    whole = train_alone(tmp_path / "whole", spec)
    with monkeypatch.context() as patched:
        patched.setattr(train_functions, "stop", stop := Stop())
        suspended = train_alone(tmp_path / "suspended", spec, stop=stop)
    resumed = train_alone(tmp_path / "suspended", spec)

    assert (suspended.finished.outcome, resumed.finished.outcome) == (STOPPED, SUCCEEDED)
    assert last_model(resumed.path).save_raw() == last_model(whole.path).save_raw()


def test_a_model_is_one_that_plain_xgboost_loads(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 200)

    spec = make_spec(tmp_path, workers=1)
    left = train_alone(tmp_path, spec)

    assert left.finished.outcome == SUCCEEDED, left.finished.message
    assert left.steps_begun
    model = next(left.path.glob("attempts/1/ray/*_epoch0001/model.ubj"))
    booster = xgboost.Booster(model_file=model)
    assert booster.num_boosted_rounds() == ROUNDS
    assert booster.feature_names == ["x.0", "x.1", "x.2", "x.3"]
    scores = [event.metrics["train.rmse"] for event in left.events if isinstance(event, Evaluated)]
    assert len(scores) == ROUNDS
    assert (scores[-1] or 0) < (scores[0] or 0) / 2
    assert json.loads(booster.attr("best_iteration") or "null") is not None


def test_a_function_that_takes_no_rows_is_told_of_no_field_that_nobody_set(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 20)
    spec = {**make_spec(tmp_path, workers=1), "train": "tests.app.boosting_functions:rest"}

    left = train_alone(tmp_path, spec)

    said = [event.message for event in left.events if isinstance(event, WarningEvent)]
    assert not [message for message in said if "spec.epochs" in message]
