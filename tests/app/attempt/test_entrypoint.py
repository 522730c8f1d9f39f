"""Scripts that start Ray Train by themselves."""

import json
import signal
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.ray_head import Head
from tests.app.ray_run import (
    ROOT,
    Output,
    finish,
    read_result,
    run_folder,
    start,
    trainshed,
    write_run,
)
from trainshed_api.names import (
    EXIT_APPLICATION,
    EXIT_INTERRUPTED,
    EXIT_SUCCEEDED,
    STOPPED,
)
from trainshed_api.progress import CheckpointSaved, Evaluated, Progress, Started, Stopping

TORCH_EXAMPLE = "examples/train_ray_ddp.py"
RAY_DATA_EXAMPLE = "examples/train_ray_ddp_with_ray_data.py"


def write_entrypoint(folder: Path, *words: str, env: JsonValue = None) -> Path:
    """Write a run of a command with 2 workers."""
    workers: JsonValue = {"count": 2, "resources": {"cpu": "500m"}}
    return write_run(folder, entrypoint=list(words), workers=workers, env=env or {})


def epochs_of(output: Output) -> list[int | None]:
    """Return the epochs that progress told of."""
    return [event.epoch for event in output.events if isinstance(event, Progress)]


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_stopped_script_goes_on_from_its_last_checkpoint(head: Head, tmp_path: Path) -> None:
    """Starts a Ray and joins one: a stopped script ends itself, and finds its checkpoint again."""
    file = write_entrypoint(tmp_path, "python", TORCH_EXAMPLE, "--epochs", "12")
    process = start("run", str(file))
    assert process.stdout
    for line in process.stdout:
        if '"checkpoint"' in line:
            break
    process.send_signal(signal.SIGINT)
    first = finish(process)
    assert first.code == EXIT_INTERRUPTED, first.stderr
    assert any(isinstance(event, Stopping) for event in first.events)
    assert first.finished.outcome == STOPPED
    stopped = read_result(file)
    assert stopped.checkpoint
    assert stopped.checkpoint.epoch
    assert "loss" in stopped.metrics

    second = trainshed("run", str(file), environment=head.joining)
    assert second.code == EXIT_SUCCEEDED, second.stderr
    started = next(event for event in second.events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.epoch
    assert started.resumed_from.epoch >= stopped.checkpoint.epoch
    assert epochs_of(second) == list(range(started.resumed_from.epoch + 1, 13))
    result = read_result(file)
    assert (result.epoch, result.step) == (12, None)
    assert (result.metrics["valid.accuracy"] or 0) > 0.95
    assert result.seconds.training > 0
    assert result.seconds.total() == pytest.approx(result.wall_seconds, rel=0.01)


# Trains as the example does, says what it was told, and fails.
FAILING = f"""
import json, os, runpy, sys
import ray

sys.argv = [{str(ROOT / RAY_DATA_EXAMPLE)!r}, "--epochs", "2"]
runpy.run_path(sys.argv[0], run_name="__main__")

@ray.remote
def look():
    return os.environ["COLOUR"]

names = ("TRAINSHED_NUM_WORKERS", "TRAINSHED_STORAGE", "TRAINSHED_RUN_NAME", "COLOUR")
told = {{name: os.environ[name] for name in names}} | {{"worker": ray.get(look.remote())}}
print(json.dumps(told))
raise ValueError("no such digit")
"""


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_failing_script_with_ray_data_shows_its_progress_and_its_own_traceback(
    head: Head, tmp_path: Path
) -> None:
    """Joins a Ray: the script, its workers and its tasks find it, and what they are told."""
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    file = write_entrypoint(tmp_path, "python", "failing.py", env={"COLOUR": "blue"})
    output = trainshed("run", str(file), environment=head.joining)

    assert output.code == EXIT_APPLICATION, output.stderr
    assert "Traceback (most recent call last)" in output.stderr
    assert output.stderr.count("ValueError: no such digit") == 1
    assert output.finished.message.endswith("exit code 1: ValueError: no such digit")
    assert epochs_of(output) == [1, 2]
    kinds = [type(event) for event in output.events]
    assert kinds.count(Evaluated) == kinds.count(CheckpointSaved) == 2

    attempt = run_folder(file) / "attempts" / "1"
    log = (attempt / "driver.log").read_text(encoding="utf-8")
    told = next(json.loads(line) for line in log.splitlines() if line.startswith('{"TRAINSHED'))
    assert told == {
        "TRAINSHED_NUM_WORKERS": "2",
        "TRAINSHED_STORAGE": str(attempt),
        "TRAINSHED_RUN_NAME": "ray",
        "COLOUR": "blue",
        "worker": "blue",
    }
    result = read_result(file)
    assert result.checkpoint
    assert Path(result.checkpoint.path).parent == attempt / "ray"
    assert "in " + result.checkpoint.path in log
    assert result.seconds.total() == pytest.approx(result.wall_seconds, rel=0.01)
    assert (run_folder(file) / "report.html").exists()
    assert (run_folder(file) / "run.json").exists()
