"""Boosting through losses: the trees are those of a run that was left alone."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import xgboost
from pydantic import JsonValue

from tests.app import train_functions
from tests.app.alone import train_alone
from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head
from tests.app.ray_run import Output, run_folder, trainshed, write_run
from tests.app.recovery import (
    assert_lost_and_resumed,
    make_kills,
    make_slow,
    resumed_step,
    stop_within,
)
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


def model_of(run: Path) -> str:
    """Return the digest of the last model of a run's folder."""
    models = sorted(run.glob("attempts/*/ray/checkpoint_*/model.ubj"), key=lambda m: m.parent.name)
    assert models[-1].parent.name == f"checkpoint_{ROUNDS:09}_epoch0001"
    return hashlib.sha256(models[-1].read_bytes()).hexdigest()


@dataclass(frozen=True)
class Plain:
    """A run of two workers that was left alone.

    Args:
        folder: of its rows.
        output: of its command.
        model: digest of its last model.
    """

    folder: Path
    output: Output
    model: str


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, head: Head) -> Plain:
    """Run to the end what others do not leave alone."""
    folder = tmp_path_factory.mktemp("plain")
    write_rows(folder / "rows", 400)
    file = write_run(folder, "plain", **make_spec(folder))
    output = trainshed("run", str(file), environment=head.joining)
    assert output.code == EXIT_SUCCEEDED, output.stderr
    return Plain(folder, output, model_of(run_folder(file)))


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_losing_a_worker_and_then_the_driver_grows_the_same_trees(
    tmp_path: Path, head: Head, plain: Plain
) -> None:
    killed = tmp_path / "killed.yaml"
    write_run(tmp_path, "killed", **make_spec(plain.folder, make_kills(killed)))
    first = trainshed("run", str(killed), environment=head.joining)
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed), environment=head.joining)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert_lost_and_resumed(first, second)
    assert model_of(run_folder(killed)) == plain.model
    assert second.finished.metrics == plain.output.finished.metrics


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_a_stopped_run_goes_on_with_more_workers_and_says_what_that_means(
    tmp_path: Path, head: Head, plain: Plain
) -> None:
    file = tmp_path / "more.yaml"
    write_run(tmp_path, "more", **make_spec(plain.folder, make_slow(file)))

    stopped_at = stop_within(file, head.joining, 5)
    output = trainshed("run", str(file), "--set", "spec.workers.count=3", environment=head.joining)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert 5 <= stopped_at < ROUNDS
    assert resumed_step(output) == stopped_at
    said = [event.message for event in output.events if isinstance(event, WarningEvent)]
    assert any("3 workers go on with trees that 2 have grown" in message for message in said)
    model_of(run_folder(file))  # all rounds are there
    reached, wanted = (each.finished.metrics["train.rmse"] for each in (output, plain.output))
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
    assert model_of(resumed.path) == model_of(whole.path)


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
