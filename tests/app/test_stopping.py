"""Runs that are told to stop: where they end, what stays behind, and who goes on from there.

What a signal does to a Ray of the run's own takes whole runs; a second signal, and all else that
needs no Ray, is in test_signals.py and test_begin.py.
"""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.processes import Mark
from tests.app.ray_head import Head
from tests.app.ray_run import (
    Output,
    finish,
    read_result,
    run_folder,
    start,
    trainshed,
    wait_for_step,
    write_run,
)
from tests.app.storages import ON_DISK, Home, make_runs
from trainshed_api.names import (
    EXIT_INTERRUPTED,
    EXIT_SUCCEEDED,
    EXIT_TERMINATED,
    EXIT_TRY_AGAIN,
    STOPPED,
)
from trainshed_api.progress import Started, Stopping

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

ROWS, BATCH, EPOCHS = 240, 12, 2
STEPS = ROWS // BATCH


def write_watched(folder: Path, **changes: JsonValue) -> Path:
    """Write a run of 2 epochs of 20 steps whose workers note what they see."""
    write_rows(folder / "rows", ROWS)
    notes = folder / "notes"
    notes.mkdir()
    spec: dict[str, JsonValue] = {
        "train": "tests.app.misbehaving:watched",
        "epochs": EPOCHS,
        "batchSize": BATCH,
        "workers": {"count": 1, "resources": {"cpu": "500m"}},
        "checkpoint": {"everyEpochs": 1},
        "data": {
            "cpus": 1,
            "datasets": {
                "train": {
                    "read": {"format": "parquet", "path": "rows"},
                    "shuffle": {"mode": "local", "bufferSize": 30},
                }
            },
        },
        **changes,
    }
    config = spec.get("config")
    spec["config"] = {"notes": str(notes), "seconds": 0.5, **(config if config else {})}  # type: ignore[dict-item]
    return write_run(folder, "test", **spec)


def with_workers(count: int) -> list[str]:
    """Return the words that change the number of workers."""
    return ["--set", f"spec.workers.count={count}"]


def take_notes(file: Path) -> list[dict[str, JsonValue]]:
    """Return and remove what the workers of the last attempt noted."""
    notes = sorted((file.parent / "notes").glob("*.json"))
    taken = [json.loads(note.read_text()) for note in notes]
    for note in notes:
        note.unlink()
    return taken


def started(output: Output) -> Started:
    return next(event for event in output.events if isinstance(event, Started))


def assert_stopped(file: Path, output: Output, reason: str, storage: Home) -> int:
    """A run was stopped in an orderly way; return the step at which all its workers ended."""
    ranks = take_notes(file)
    steps = {int(str(note["step"])) for note in ranks}
    assert len(steps) == 1, ranks
    step = steps.pop()
    assert [e.reason for e in output.events if isinstance(e, Stopping)] == [reason]
    assert output.finished.outcome == STOPPED
    assert output.finished.message == f"{reason}: stopped after step {step}"
    result = read_result(file)
    assert (result.outcome, result.step) == (STOPPED, step)
    assert result.checkpoint
    assert result.checkpoint.step == step
    assert (storage.file(result.checkpoint.path) / "manifest.json").exists()
    assert (run_folder(file) / "report.html").exists()
    assert output.stderr == ""
    return step


def wait_for(path: Path, timeout_seconds: float = 300) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.05)


def signal_group(process: subprocess.Popen[str], number: int) -> None:
    """Signal the whole group, as a terminal's Ctrl-C does, `timeout`, systemd and scancel."""
    os.killpg(process.pid, number)


@pytest.fixture(params=ON_DISK)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Where a run lies, seen as `runs` beside its file."""
    return make_runs(str(request.param), request, tmp_path)


def test_stopped_runs_go_on_at_that_very_step_on_any_number_of_workers(
    tmp_path: Path, head: Head, storage: Home
) -> None:
    file = write_watched(tmp_path, storage=storage.address)
    reached = dict(storage.environment)
    mark = Mark()
    seen: Counter[tuple[int, int]] = Counter()

    def count_rows() -> None:
        for note in (tmp_path / "notes").glob("*.json"):
            noted = json.loads(note.read_text())["rows"]
            seen.update((epoch, row) for epoch, rows in noted for row in rows)

    # Two workers, Ctrl-C; meanwhile a second driver.
    first = start("run", str(file), *with_workers(2), environment=mark.environment | reached)
    wait_for_step(file, 3)
    hold = tmp_path / "notes" / "hold"
    hold.touch()  # however long the second one takes
    provenance = (run_folder(file) / "run.json").read_bytes()
    second = trainshed("run", str(file), environment=reached)
    assert second.code == EXIT_TRY_AGAIN
    assert "attempt 1 is held by process" in second.stderr
    assert f"process {first.pid} on" in second.stderr
    assert [path.name for path in run_folder(file).glob("attempts/*")] == ["1"]
    assert (run_folder(file) / "run.json").read_bytes() == provenance
    hold.unlink()
    signal_group(first, signal.SIGINT)
    output = finish(first)
    count_rows()
    assert output.code == EXIT_INTERRUPTED
    at_first = assert_stopped(file, output, "Interrupted", storage)
    assert mark.left_over() == []

    # Three workers go on in the same epoch, SIGTERM to all of the group, Ray is none of.
    third = start("run", str(file), *with_workers(3), environment=mark.environment | reached)
    wait_for_step(file, at_first + 3, attempt=2)
    signal_group(third, signal.SIGTERM)
    output = finish(third)
    count_rows()
    assert output.code == EXIT_TERMINATED
    at_second = assert_stopped(file, output, "Terminated", storage)
    assert mark.left_over() == []
    point = started(output).resumed_from
    assert point
    assert point.step == at_first

    # One worker goes on to the end, wherever it is.
    (tmp_path / "notes" / "hurry").touch()
    # The kept cluster does not know of a bucket that is of this test alone.
    output = trainshed("run", str(file), environment=reached or head.joining)
    count_rows()
    assert output.code == EXIT_SUCCEEDED, output.stderr
    point = started(output).resumed_from
    assert point
    assert point.step == at_second
    assert read_result(file).step == EPOCHS * STEPS
    assert started(output).attempt == 3

    # Every row was in exactly one step of each epoch.
    assert seen == Counter({(epoch, row): 1 for epoch in range(EPOCHS) for row in range(ROWS)})


def test_a_function_that_does_not_come_to_an_end_is_left_after_the_grace_period(
    tmp_path: Path, head: Head
) -> None:
    file = write_watched(tmp_path, config={"sleepAt": 2}, gracePeriodSeconds=1)
    process = start("run", str(file), environment=head.joining)
    asleep = tmp_path / "notes" / "asleep"
    wait_for(asleep)
    process.terminate()
    output = finish(process)

    assert output.code == EXIT_TERMINATED
    assert output.finished.outcome == STOPPED
    message = output.finished.message
    assert message.startswith("Terminated: no end within gracePeriodSeconds (1); ")
    assert read_result(file).outcome == STOPPED
    wait_until_over(int(asleep.read_text(encoding="ascii")))  # the sleep would take ten minutes


def wait_until_over(process: int, timeout_seconds: float = 120) -> None:
    """Wait until a process, of others, is no more."""
    deadline = time.monotonic() + timeout_seconds
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline, f"process {process} goes on"
        time.sleep(0.05)
