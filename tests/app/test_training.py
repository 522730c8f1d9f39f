"""Whole runs through the command line, on real data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.app.builders_rows import write_rows
from tests.app.ray_run import ROOT, Output, run_folder, trainshed, write_run
from tests.builders_data import write_pictures
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import CheckpointSaved, Evaluated, Progress, Started
from trainshed_api.records import ResultRecord, RunRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

QUICK_START = str(ROOT / "manifests" / "trainingrun.yaml")
# A run's buckets may miss this share of its wall time.
REMAINDER = 0.01


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a TRAINSHED_HOME that holds the digits."""
    folder = tmp_path_factory.mktemp("home")
    assert trainshed("data", "digits", "--to", str(folder)).code == EXIT_SUCCEEDED
    return folder


@pytest.fixture(scope="module")
def quick_start(home: Path) -> Output:
    """Return what the quick start printed."""
    return trainshed("run", QUICK_START, environment={"TRAINSHED_HOME": str(home)})


def test_the_quick_start_learns_to_read_digits(quick_start: Output) -> None:
    assert quick_start.code == EXIT_SUCCEEDED, quick_start.stderr
    accuracy = quick_start.finished.metrics["valid.accuracy"]
    assert accuracy is not None
    assert accuracy >= 0.95


def test_piped_output_is_one_event_a_line_and_nothing_else(quick_start: Output) -> None:
    lines = quick_start.stdout.splitlines()
    assert len(lines) == len(quick_start.events)
    kinds = {type(event) for event in quick_start.events}
    assert kinds >= {Started, Progress, Evaluated, CheckpointSaved}
    assert quick_start.stderr == ""


def test_every_second_of_a_run_is_in_a_bucket(quick_start: Output) -> None:
    finished = quick_start.finished
    missing = finished.wall_seconds - finished.seconds.total()
    assert abs(missing) <= REMAINDER * finished.wall_seconds


def test_a_run_leaves_what_the_readme_says(quick_start: Output, home: Path) -> None:
    folder = home / "runs" / "local" / "digits"
    record = RunRecord.model_validate_json((folder / "run.json").read_text())
    result = ResultRecord.model_validate_json((folder / "result.json").read_text())
    assert quick_start.finished.report == str(folder / "report.html")
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    assert record.data["train"].rows == 1437
    assert result.checkpoint
    assert result.checkpoint.step == result.step == 8 * 22
    weights = torch.load(Path(result.checkpoint.path) / "model.pt", weights_only=True)
    assert not any(name.startswith("module.") for name in weights)


def test_a_finished_run_says_so_instead_of_training_again(home: Path, quick_start: Output) -> None:
    assert quick_start.code == EXIT_SUCCEEDED
    again = trainshed("run", QUICK_START, environment={"TRAINSHED_HOME": str(home)})
    assert again.code == EXIT_SUCCEEDED
    assert "is finished" in again.stdout
    assert not (home / "runs" / "local" / "digits" / "attempts" / "2").exists()


def test_the_plain_data_loader_reaches_the_same_accuracy(home: Path) -> None:
    sample = str(ROOT / "manifests" / "samples" / "digits-dataloader.yaml")
    output = trainshed("run", sample, environment={"TRAINSHED_HOME": str(home)})
    assert output.code == EXIT_SUCCEEDED, output.stderr
    accuracy = output.finished.metrics["valid.accuracy"]
    assert accuracy is not None
    assert accuracy >= 0.95


def test_the_vit_trains_on_encoded_pictures_with_augmentation(tmp_path: Path) -> None:
    for part, rows in (("train", 600), ("test", 200)):
        write_pictures(tmp_path / "cifar10" / part, rows=rows, files=3, seed=rows)
    output = trainshed(
        "run",
        str(ROOT / "manifests" / "samples" / "vit-cifar.yaml"),
        *("--set", "spec.epochs=2", "--set", "spec.batchSize=50"),
        *("--set", "spec.workers={count: 2, resources: {cpu: 1}}", "--cpu"),
        environment={"TRAINSHED_HOME": str(tmp_path)},
    )
    assert output.code == EXIT_SUCCEEDED, output.stderr
    losses = [e.metrics["valid.loss"] for e in output.events if isinstance(e, Evaluated)]
    assert len(losses) == 2
    assert losses[1] < losses[0]  # type: ignore[operator]  # a loss that is no number fails here


def evaluate_on(workers: int, tmp_path: Path) -> tuple[float, list[int]]:
    """Return the loss and the rows seen of an evaluation of 11 rows."""
    folder = tmp_path / f"on{workers}"
    write_rows(folder / "rows", 11, files=2, row_group_size=3)
    seen = folder / "seen"
    seen.mkdir()
    read: JsonValue = {"format": "parquet", "path": "rows"}
    spec: dict[str, JsonValue] = {
        "train": "tests.app.train_functions:score_once",
        "config": {"seen": str(seen)},
        "epochs": 1,
        "batchSize": 4,
        "workers": {"count": workers, "resources": {"cpu": "500m"}},
        "data": {"cpus": 1, "datasets": {"valid": {"read": read}}},
    }
    file = write_run(folder, "scores", **spec)
    assert trainshed("run", str(file)).code == EXIT_SUCCEEDED
    result = json.loads((run_folder(file) / "result.json").read_text())
    rows = [int(row) for part in seen.iterdir() for row in part.read_text().split()]
    return result["metrics"]["valid.loss"], sorted(rows)


def test_evaluation_is_exact_on_any_number_of_workers(tmp_path: Path) -> None:
    alone, rows_alone = evaluate_on(1, tmp_path)
    together, rows_together = evaluate_on(3, tmp_path)
    assert rows_alone == rows_together == list(range(11))
    assert together == pytest.approx(alone, rel=1e-6)
