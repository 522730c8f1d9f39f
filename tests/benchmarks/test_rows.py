"""The generated rows, and the records of a killed worker."""

from pathlib import Path

import torch

from benchmarks import rows
from benchmarks.plain.files import read_rows
from benchmarks.plain.steplog import StepLog, read_recovery

SHAPE = rows.Shape("tiny", 160, 12)


def test_rows_have_their_shape_and_are_written_once(tmp_path: Path) -> None:
    folder = rows.make(SHAPE, tmp_path)
    written = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    x, y = read_rows(str(rows.make(SHAPE, tmp_path)))
    assert (tuple(x.shape), x.dtype) == ((160, 12), torch.float32)
    assert (tuple(y.shape), y.dtype) == ((160,), torch.int64)
    assert {int(label) for label in y} <= set(range(rows.CLASSES))
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == written


def test_recovery_is_the_time_between_two_groups_of_workers(tmp_path: Path) -> None:
    (tmp_path / "killed.json").write_text('{"step": 40, "time": 100.0}')
    (tmp_path / "steps.jsonl").write_text(
        '{"step": 40, "time": 100.0, "process": 7}\n{"step": 33, "time": 102.5, "process": 9}\n'
    )
    assert read_recovery(tmp_path) == {"seconds": 2.5, "redone": 8}


def test_a_worker_is_killed_only_once(tmp_path: Path) -> None:
    (tmp_path / "killed.json").write_text('{"step": 40, "time": 100.0}')
    StepLog(str(tmp_path), rank=1).record(40, kill_at=40)
    assert not (tmp_path / "steps.jsonl").exists()
