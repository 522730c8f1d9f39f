"""Training functions that Ray Train could run without Trainshed."""

import json
import signal
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.ray_run import Output, finish, run_folder, start, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED, EXIT_TERMINATED, STOPPED
from trainshed_api.progress import CheckpointSaved, Evaluated, Progress, Started, WarningEvent
from trainshed_api.records import ResultRecord

pytestmark = [pytest.mark.ray, pytest.mark.timeout(200)]

ROWS = 101


def write_counting(folder: Path, **config: JsonValue) -> Path:
    """Write a run of `count_rows` on 2 workers; some of its fields the function cannot obey."""
    write_rows(folder / "rows", ROWS)
    notes = folder / "notes"
    notes.mkdir()
    return write_run(
        folder,
        train="tests.app.plain_functions:count_rows",
        config={"notes": str(notes), **config},
        batchSize=10,
        precision="bfloat16",
        checkpoint={"everySteps": 5, "keep": 2},
        workers={"count": 2, "resources": {"cpu": "500m"}},
        data={
            "cpus": 1,
            "datasets": {
                "train": {
                    "read": {"format": "parquet", "path": "rows", "columns": ["row"]},
                    "shuffle": {"mode": "local", "bufferSize": 20},
                    "feed": {"prefetchBatches": 3},
                }
            },
        },
    )


def read_notes(folder: Path) -> dict[int, list[list[int]]]:
    """Return by epoch the rows that each rank saw; what was done twice counts once."""
    noted: dict[int, list[list[int]]] = {}
    for rank in (0, 1):
        lines = (folder / "notes" / f"rank{rank}.jsonl").read_text(encoding="utf-8").splitlines()
        seen = {note["epoch"]: note["rows"] for note in map(json.loads, lines)}
        for epoch, rows in seen.items():
            noted.setdefault(epoch, []).append(rows)
    return noted


def read_result(file: Path) -> ResultRecord:
    """Return a run's result.json."""
    text = (run_folder(file) / "result.json").read_text(encoding="utf-8")
    return ResultRecord.model_validate_json(text)


def assert_equal_shares(epochs: dict[int, list[list[int]]]) -> None:
    """Every rank has 50 rows of its own in each epoch, in another order each time."""
    for shares in epochs.values():
        assert [len(rows) for rows in shares] == [50, 50]
        assert len({row for rows in shares for row in rows}) == ROWS - 1
    orders = [tuple(shares[0]) for shares in epochs.values()]
    assert len(set(orders)) == len(orders)


def warnings_of(output: Output) -> list[str]:
    """Return what was warned of, apart from the note on nodes."""
    told = [event.message for event in output.events if isinstance(event, WarningEvent)]
    return [message for message in told if "placement" not in message]


def test_killed_driver_goes_on_from_the_functions_own_checkpoint(tmp_path: Path) -> None:
    file = write_counting(tmp_path, epochs=4, killDriverIn=2)
    first = trainshed("run", str(file))
    assert first.code == -signal.SIGKILL, first.stderr
    second = trainshed("run", str(file))
    assert second.code == EXIT_SUCCEEDED, second.stderr

    started = next(event for event in second.events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.epoch == 2
    epochs = [event.epoch for event in second.events if isinstance(event, Progress)]
    assert epochs == [3, 4]
    assert_equal_shares(read_notes(tmp_path))
    result = read_result(file)
    assert (result.epoch, result.step, result.metrics["loss"]) == (4, None, 0.25)
    assert result.checkpoint
    assert result.checkpoint.epoch == 4
    assert result.seconds.total() == pytest.approx(result.wall_seconds, rel=0.01)
    [warning] = warnings_of(second)
    for field in (
        "spec.batchSize",
        "spec.precision",
        "spec.checkpoint.everySteps",
        "spec.data.datasets.train.feed.prefetchBatches",
    ):
        assert field in warning
    for field in ("spec.epochs", "spec.checkpoint.keep", "shuffle"):
        assert field not in warning


def test_asked_to_stop_it_ends_at_its_next_checkpoint(tmp_path: Path) -> None:
    file = write_counting(tmp_path, epochs=1000, pause=0.5)
    process = start("run", str(file))
    assert process.stdout
    for line in process.stdout:
        if '"checkpoint"' in line:
            break
    process.send_signal(signal.SIGTERM)
    output = finish(process)
    assert output.code == EXIT_TERMINATED, output.stderr
    assert output.finished.outcome == STOPPED
    kinds = [type(event) for event in output.events]
    assert {CheckpointSaved, Evaluated, Progress} <= set(kinds)
    result = read_result(file)
    assert result.checkpoint
    assert result.checkpoint.epoch == result.epoch
    assert result.seconds.total() == pytest.approx(result.wall_seconds, rel=0.01)
    assert result.wall_seconds < 60
