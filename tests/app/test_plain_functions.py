"""Training functions that Ray Train could run without Trainshed."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head
from tests.app.ray_run import Output, finish, read_result, start, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED, EXIT_TERMINATED, STOPPED
from trainshed_api.progress import (
    CheckpointSaved,
    Event,
    Progress,
    Started,
    Stopping,
    WarningEvent,
    parse_event,
)

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

ROWS = 101


def write_counting(folder: Path, **config: JsonValue) -> Path:
    """Write a run of `count_rows` on 2 workers; some of its fields the function cannot obey.

    Its rows are text, of which the function makes tensors itself.
    """
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
                    "transforms": [{"use": "tests.app.plain_functions:name_rows"}],
                    "shuffle": {"mode": "local", "bufferSize": 20},
                    "feed": {"prefetchBatches": 3},
                }
            },
        },
    )


def read_notes(folder: Path) -> dict[int, list[list[int]]]:
    """Return by epoch the rows that each rank saw; what was done twice was the same twice."""
    noted: dict[int, list[list[int]]] = {}
    for rank in (0, 1):
        lines = (folder / "notes" / f"rank{rank}.jsonl").read_text(encoding="utf-8").splitlines()
        seen: dict[int, list[int]] = {}
        for note in map(json.loads, lines):
            assert seen.setdefault(note["epoch"], note["rows"]) == note["rows"]
        for epoch, rows in seen.items():
            noted.setdefault(epoch, []).append(rows)
    return noted


def assert_equal_shares(epochs: dict[int, list[list[int]]]) -> None:
    """Every rank has 50 rows of its own in each epoch, in another order each time."""
    for shares in epochs.values():
        assert [len(rows) for rows in shares] == [50, 50]
        assert len({row for rows in shares for row in rows}) == ROWS - 1
    orders = [tuple(shares[0]) for shares in epochs.values()]
    assert len(set(orders)) == len(orders)


def test_stopped_function_goes_on_from_its_own_checkpoint(head: Head, tmp_path: Path) -> None:
    """Joins a Ray twice: what Ray Train keeps of a function's own checkpoints is its own doing."""
    file = write_counting(tmp_path, epochs=5)
    process = start("run", str(file), environment=head.joining)
    read_until(process, CheckpointSaved)
    process.send_signal(signal.SIGTERM)
    read_until(process, Stopping)
    allow(tmp_path, 2)  # the next checkpoint is its end
    first = finish(process)
    assert first.code == EXIT_TERMINATED, first.stderr
    assert first.finished.outcome == STOPPED
    stopped = read_result(file)
    assert stopped.epoch == 2
    assert stopped.checkpoint
    assert stopped.checkpoint.epoch == stopped.epoch
    assert stopped.seconds.total() == pytest.approx(stopped.wall_seconds, rel=0.01)

    allow(tmp_path, 5)
    second = trainshed("run", str(file), environment=head.joining)
    assert second.code == EXIT_SUCCEEDED, second.stderr
    started = [event for event in second.events if isinstance(event, Started)]
    assert all(event.resumed_from for event in started)
    assert started[0].resumed_from
    assert started[0].resumed_from.epoch == stopped.epoch
    epochs = [event.epoch for event in second.events if isinstance(event, Progress)]
    assert epochs == list(range(stopped.epoch + 1, 6))
    assert_equal_shares(read_notes(tmp_path))
    for rank in (0, 1):
        assert json.loads((tmp_path / "notes" / f"kept{rank}.json").read_text("ascii")) == [4, 5]
    result = read_result(file)
    assert (result.epoch, result.step, result.metrics["loss"]) == (5, None, 0.2)
    assert result.checkpoint
    assert result.checkpoint.epoch == 5
    assert result.seconds.training > 0
    assert result.seconds.total() == pytest.approx(result.wall_seconds, rel=0.01)
    assert_warned(second)


def allow(folder: Path, epochs: int) -> None:
    """Let the function go on to the end of so many epochs."""
    file = folder / "notes" / "allowed"
    file.with_suffix(".new").write_text(str(epochs), encoding="ascii")
    file.with_suffix(".new").rename(file)


def read_until(process: subprocess.Popen[str], kind: type[Event]) -> None:
    """Read what a run prints up to an event of a kind."""
    assert process.stdout
    for line in process.stdout:
        if isinstance(parse_event(line), kind):
            return
    raise AssertionError(f"no {kind.__name__}")


def assert_warned(output: Output) -> None:
    """One warning names what the function cannot obey, and nothing that it does obey."""
    told = [event.message for event in output.events if isinstance(event, WarningEvent)]
    [warning] = [message for message in told if "get_dataset_shard" in message]
    for field in (
        "spec.batchSize",
        "spec.precision",
        "spec.checkpoint.everySteps",
        "spec.data.datasets.train.feed.prefetchBatches",
    ):
        assert field in warning
    for field in ("spec.epochs", "spec.checkpoint.keep", "shuffle"):
        assert field not in warning
