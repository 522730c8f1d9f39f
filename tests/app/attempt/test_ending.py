"""What a run says of itself when it has ended."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

import trainshed
from tests.app.alone import train_alone
from tests.builders import make_run
from trainshed.attempt.finish import NO_MODEL
from trainshed.attempt.resume import finished
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import read_record
from trainshed_api.records import ResultRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

NAME = __name__


def saves_nothing(_config: dict[str, object]) -> None:
    """Train nothing and save nothing."""


def saves(_config: dict[str, object]) -> None:
    """Have a checkpoint written at the end of each epoch."""
    run = trainshed.current()
    run.track(torch.nn.Linear(1, 1))
    for _ in run.epochs():
        pass


def train_once(home: Path, function: str) -> ResultRecord:
    spec: dict[str, JsonValue] = {"train": f"{NAME}:{function}", "epochs": 1}
    left = train_alone(home, spec)
    assert left.error is None
    result = finished(prepare(make_run(**spec), RunLocation(Disk(home))))
    assert result
    assert left.finished.message == result.message
    assert left.finished.time == pytest.approx(result.finished_at.timestamp())
    return result


def test_a_run_that_saved_no_model_says_so(tmp_path: Path) -> None:
    assert train_once(tmp_path, "saves_nothing").message == NO_MODEL


def test_a_run_that_saved_one_says_nothing_of_it(tmp_path: Path) -> None:
    assert train_once(tmp_path, "saves").message == ""


def test_a_run_took_as_long_as_it_says_from_its_creation_to_its_end(tmp_path: Path) -> None:
    result = train_once(tmp_path, "saves_nothing")

    run = prepare(make_run(train=f"{NAME}:saves_nothing", epochs=1), RunLocation(Disk(tmp_path)))
    record = read_record(run.folder.at)
    assert record
    took = (result.finished_at - record.created_at).total_seconds()
    assert took == pytest.approx(result.wall_seconds, abs=1e-3)
