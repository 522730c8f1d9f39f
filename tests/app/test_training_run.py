"""`trainshed.TrainingRun` trains, stops, and gives back what a run left."""

import html
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import trainshed
from tests.app.alone import train_alone
from tests.app.jobs.kubectl_stand_in import make_object, write_kubectl
from tests.app.jobs.server import Reply, serve
from tests.app.report.pages import ParsedPage
from tests.builders_run import make_evaluated, make_progress, make_started
from tests.bundle.repository import ROOT
from trainshed.jobs.kubectl import Kubectl
from trainshed.report.load import AttemptHistory
from trainshed.report.metric_rows import metric_rows
from trainshed.report.notebook import NotebookDisplay
from trainshed.storage.run_folder import LOG, RunFolder
from trainshed.targets import ObjectTarget
from trainshed.training_run import follow_command
from trainshed_api.errors import SpecError
from trainshed_api.json_object import as_object
from trainshed_api.names import EXIT_INTERRUPTED, EXIT_INVALID
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from pydantic import JsonValue

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return write_kubectl(tmp_path, monkeypatch)


def cells_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run trains on one worker in this process, so that run() finds it finished."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in cells_of(NOTEBOOK):
        if cell == "run.run()":
            run = names["run"]
            assert isinstance(run, trainshed.TrainingRun)
            spec = run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
            train_alone(tmp_path, spec)
        exec(cell, names)

    assert isinstance(run, trainshed.TrainingRun)
    assert "digits is finished" in capsys.readouterr().out
    metrics = run.metrics()
    assert list(metrics.columns[:4]) == ["time", "kind", "epoch", "step"]
    assert metrics[metrics["kind"] == "evaluation"]["valid.accuracy"].iloc[-1] > 0.5
    run.wait()
    run.stop()
    RunFolder(run.folder).attempt(1).write(LOG, b"a line\n")
    assert run.logs() == "a line\n"


def test_a_mistake_is_said_as_of_a_file() -> None:
    with pytest.raises(SpecError, match=r'spec.precision: got "double"; expected one of'):
        trainshed.TrainingRun("a", {"train": "m:train", "precision": "double"})


def test_a_name_that_is_no_text_is_refused() -> None:
    config: dict[str, JsonValue] = {"config": {1: 2}}  # type: ignore[dict-item]
    with pytest.raises(SpecError, match=r"spec.config: got the name 1; expected names that are"):
        trainshed.TrainingRun("a", config)


def test_lines_that_are_not_utf8_are_taken() -> None:
    lines: list[str] = []
    follow_command(["printf", r"a\377\n"], "", lines.append)
    assert lines == ["a\N{REPLACEMENT CHARACTER}"]


def test_a_typed_spec_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "apiVersion: trainshed.dev/v1alpha1\nkind: TrainingRun\nmetadata: {name: a}\n"
        "spec: {train: 'm:train', batchSize: 8}\n"
    )
    loaded = trainshed.TrainingRun.load(file, ["spec.epochs=2"])
    typed = trainshed.TrainingRun("a", TrainingRunSpec(train="m:train", batch_size=8, epochs=2))
    assert loaded.spec == typed.spec
    assert str(loaded.folder) == str(tmp_path / "runs" / "local" / "a")


def test_what_the_command_line_refuses_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = trainshed.TrainingRun("a", {"train": "no_such_module:train", "epochs": 1})
    with pytest.raises(trainshed.TrainingFailedError, match=r"^spec.train: got no_such") as raised:
        run.run()
    assert raised.value.exit_code == EXIT_INVALID


def test_what_has_not_begun_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(trainshed.ClusterError, match="a has not begun"):
        trainshed.TrainingRun("a", {"train": "m:train"}).wait()


def test_an_interrupt_stops_the_run_and_not_the_caller() -> None:
    program = (
        "import signal, sys\n"
        f"signal.signal(signal.SIGINT, lambda *_: sys.exit({EXIT_INTERRUPTED}))\n"
        "print(sys.stdin.read(), flush=True)\nsignal.pause()"
    )
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        signal.raise_signal(signal.SIGINT)

    assert follow_command([sys.executable, "-c", program], "text", take) == EXIT_INTERRUPTED
    assert lines == ["text"]


def test_steps_that_were_done_again_are_counted_once() -> None:
    first = make_started(), make_progress(10), make_progress(20), make_progress(30)
    second = make_started(2, resumed_step=20), make_progress(30), make_evaluated(40)
    rows = metric_rows([AttemptHistory(1, first), AttemptHistory(2, second)])
    assert [row["step"] for row in rows] == [10, 20, 30, 40]
    assert rows[-1]["valid.accuracy"] == 0.95


def test_a_notebook_shows_curves_and_the_latest_metrics() -> None:
    pages: list[str] = []
    display = NotebookDisplay("digits", pages.append, clock=lambda: 0.0)
    display.close()
    assert pages == []
    for event in (make_started(), make_progress(10), make_progress(20), make_evaluated(30)):
        display.show(event)

    assert len(pages) == 2  # the progress is drawn with the evaluation
    page = ParsedPage(html.unescape(pages[-1].split('"')[1]))
    assert "digits: training" in page.text
    assert "valid.accuracy" in page.text
    assert "svg" in page.tags


def test_an_applied_run_is_waited_for_and_read_in_its_cluster(
    world: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = [make_started().to_line(), "loading", make_progress(10).to_line()]
    (world / "log").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    run = trainshed.TrainingRun("digits", {"train": "m:train"})

    run.apply("team")

    asked = (world / "asked").read_text().splitlines()
    assert asked[0] == "-n team apply -f -"
    assert json.loads((world / "applied").read_text())["spec"]["suspend"] is False
    assert run.logs().splitlines() == lines
    assert run.metrics()["step"].tolist() == [10]
    with pytest.raises(trainshed.TrainingFailedError, match="Suspended"):
        run.wait()


def test_a_status_from_before_the_last_change_ends_no_wait(world: Path) -> None:
    seen = make_object("Suspended")
    as_object(seen["metadata"])["generation"] = 3
    (world / "run").write_text(json.dumps(seen))
    target = ObjectTarget(Kubectl(None, "team"), "digits")
    assert target.ended() is None

    as_object(seen["status"])["observedGeneration"] = 3
    (world / "run").write_text(json.dumps(seen))
    assert target.ended() == "Suspended, step 5 of 10, loss 0.5"


def test_a_submitted_run_is_waited_for_and_read_in_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_progress(10).to_line() + "\nlast\n"
    job = {"type": "SUBMISSION", "status": "FAILED", "message": "boom", "entrypoint": "python"}

    def answer(path: str, body: str) -> Reply:
        if path == "/api/version":
            return 200, json.dumps({"version": "4", "ray_version": "2.60.0", "ray_commit": "a"})
        if path == "/api/jobs/":
            return 200, json.dumps({"submission_id": "a", "job_id": "a"} if body else [])
        return 200, json.dumps({"logs": log} if path.endswith("/logs") else job)

    monkeypatch.chdir(tmp_path)
    run = trainshed.TrainingRun("digits", {"train": "m:train"})
    with serve(answer) as server:
        job_id = run.submit(server.address)

        assert job_id.startswith("digits-")
        assert run.logs() == log
        assert run.metrics()["step"].tolist() == [10]
        with pytest.raises(trainshed.TrainingFailedError, match="FAILED: boom"):
            run.wait()
    sent = json.loads(next(body for path, body in server.asked if path == "/api/jobs/" and body))
    assert sent["submission_id"] == job_id
