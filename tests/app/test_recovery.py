"""A killed run ends with the very weights of one that was left alone."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import Started, WorkersLost

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Case:
    """How rows are mixed and kept, and by how many workers."""

    shuffle: JsonValue
    cache: str
    workers: int


CASES = {
    "file order on 2 workers, kept by them": Case({"mode": "none"}, "workers", 2),
    "files streamed to 3 workers": Case({"mode": "files"}, "none", 3),
    "blocks kept as objects, 3 workers": Case({"mode": "blocks"}, "objects", 3),
    "local windows on 3 workers": Case({"mode": "local", "bufferSize": 32}, "auto", 3),
    "a global shuffle streamed to 3 workers": Case({"mode": "global"}, "none", 3),
}


def make_spec(case: Case, folder: Path, config: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a spec of 3 epochs of 10 steps with a checkpoint after each 4."""
    read: JsonValue = {"format": "parquet", "path": str(folder / "rows"), "columns": ["x", "y"]}
    train: JsonValue = {"read": read, "shuffle": case.shuffle, "cache": case.cache}
    return {
        "train": "tests.app.train_functions:regress",
        "config": config,
        "epochs": 3,
        "batchSize": 20,
        "seed": 3,
        "reproducible": True,
        "workers": {"count": case.workers, "resources": {"cpu": "500m"}},
        "checkpoint": {"everyEpochs": 0, "everySteps": 4},
        "data": {"cpus": 1, "datasets": {"train": train}},
    }


def last_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a run's last checkpoint."""
    found = run_folder(file).glob("attempts/*/ray/checkpoint_*/model.pt")
    last = max(found, key=lambda path: path.parent.name)
    assert "000000030" in last.parent.name
    weights: dict[str, torch.Tensor] = torch.load(last, weights_only=True)
    return weights


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_losing_a_worker_and_then_the_driver_changes_no_bit(tmp_path: Path, case: Case) -> None:
    write_rows(tmp_path / "rows", 210)
    left_alone = write_run(tmp_path, "plain", **make_spec(case, tmp_path, {}))
    assert trainshed("run", str(left_alone)).code == EXIT_SUCCEEDED

    kills: dict[str, JsonValue] = {
        "killWorkerAt": 10,
        "killDriverAt": 18,
        "run": str(run_folder(tmp_path / "killed.yaml")),
    }
    killed = write_run(tmp_path, "killed", **make_spec(case, tmp_path, kills))
    first = trainshed("run", str(killed))
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed))
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert any(isinstance(event, WorkersLost) for event in first.events)
    started = next(event for event in second.events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.step == 16
    want, got = last_weights(left_alone), last_weights(killed)
    assert all(torch.equal(want[name], got[name]) for name in want)
