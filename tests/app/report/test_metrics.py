"""Which value of which metric is called the best one."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders_run import RunFolderBuilder, make_evaluated, make_progress, make_started
from trainshed.report.load import read_run
from trainshed.report.metrics import direction_of, find_best
from trainshed.storage.disk import Disk
from trainshed_api.progress import AnyEvent

if TYPE_CHECKING:
    from pydantic import JsonValue

DIRECTIONS = {
    "eval_loss": "min",
    "valid.loss": "min",
    "valid.mlogloss": "min",
    "val_mae": "min",
    "evalLoss": "min",
    "perplexity": "min",
    "test.merror": "min",
    "error_rate": "min",
    "RMSE": "min",
    "valid.wer": "min",
    "valid.accuracy": "max",
    "eval_accuracy": "max",
    "top5Accuracy": "max",
    "top5_acc": "max",
    "balanced_accuracy": "max",
    "valid.f1": "max",
    "aucpr": "max",
    "eval_runtime": None,
    "learning_rate": None,
    "epoch": None,
    "glossary": None,
}


@pytest.mark.parametrize(("name", "want"), DIRECTIONS.items())
def test_names_say_whether_low_or_high_is_good(name: str, want: str | None) -> None:
    assert direction_of(name) == want


def best_of(folder: Path, *events: AnyEvent, mode: str = "") -> tuple[str, float] | None:
    best: JsonValue = {"metric": "score", "mode": mode}
    spec: dict[str, JsonValue] = {"checkpoint": {"best": best}} if mode else {}
    run = RunFolderBuilder(spec=spec, attempts=[[make_started(), *events]])
    found = find_best(read_run(run.write(Disk(folder))))
    return (found.name, found.value) if found else None


def test_the_lowest_loss_of_held_out_rows_is_the_best(tmp_path: Path) -> None:
    events = [
        make_progress(step, metrics={"loss": 1.0, "eval_loss": loss, "eval_runtime": 9.0})
        for step, loss in enumerate((4.6, 3.1, 3.4))
    ]

    assert best_of(tmp_path, *events) == ("eval_loss", 3.1)


def test_nothing_is_best_of_which_nobody_knows_what_is_good(tmp_path: Path) -> None:
    events = [make_evaluated(step, {"valid.temperature": float(step)}) for step in (1, 2)]

    assert best_of(tmp_path, *events) is None


@pytest.mark.parametrize(("mode", "want"), [("min", 1.0), ("max", 2.0)])
def test_the_users_mode_decides(mode: str, want: float, tmp_path: Path) -> None:
    events = [make_evaluated(step, {"score": float(step)}) for step in (1, 2)]

    assert best_of(tmp_path, *events, mode=mode) == ("score", want)
