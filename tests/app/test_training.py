"""The quick start through the command line, on real data."""

import pytest
import torch

from tests.app.ray_run import ROOT, Output, trainshed
from tests.app.storages import IN_BUCKET, Home, make_home
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import CheckpointSaved, Evaluated, Progress, Started
from trainshed_api.records import ResultRecord, RunRecord

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

QUICK_START = str(ROOT / "manifests" / "trainingrun.yaml")
# A run's buckets may miss this share of its wall time.
REMAINDER = 0.01


@pytest.fixture(scope="module", params=IN_BUCKET)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Return a TRAINSHED_HOME that holds the digits."""
    made = make_home(str(request.param), request, tmp_path_factory.mktemp("home"))
    written = trainshed("data", "digits", "--to", made.address, environment=dict(made.environment))
    assert written.code == EXIT_SUCCEEDED, written.stderr
    return made


def run_quick_start(home: Home) -> Output:
    """Run the quick start with all that it reads and writes in a home."""
    environment = {"TRAINSHED_HOME": home.address, **home.environment}
    return trainshed("run", QUICK_START, environment=environment)


@pytest.fixture(scope="module")
def quick_start(home: Home) -> Output:
    """Return what the quick start printed."""
    return run_quick_start(home)


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


def test_a_run_leaves_what_the_readme_says(quick_start: Output, home: Home) -> None:
    folder = home.path / "runs" / "local" / "digits"
    record = RunRecord.model_validate_json((folder / "run.json").read_text())
    result = ResultRecord.model_validate_json((folder / "result.json").read_text())
    assert quick_start.finished.report == f"{home.address}/runs/local/digits/report.html"
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    assert record.data["train"].rows == 1437
    assert (folder / "attempts" / "1" / "run.json").read_text() == (folder / "run.json").read_text()
    assert result.checkpoint
    assert result.checkpoint.step == result.step == 8 * 22
    assert {each.stage for each in result.data} >= {"reading parquet", "making batches"}
    events = (folder / "attempts" / "1" / "metrics.jsonl").read_text().splitlines()
    assert len(events) == len(quick_start.events)
    weights = torch.load(home.file(result.checkpoint.path) / "model.pt", weights_only=True)
    assert not any(name.startswith("module.") for name in weights)


def test_a_finished_run_says_so_instead_of_training_again(home: Home, quick_start: Output) -> None:
    assert quick_start.code == EXIT_SUCCEEDED
    again = run_quick_start(home)
    assert again.code == EXIT_SUCCEEDED
    assert "is finished" in again.stdout
    assert not (home.path / "runs" / "local" / "digits" / "attempts" / "2").exists()
