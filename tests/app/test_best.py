"""The best checkpoint of a run is one whose weights were scored."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.app.alone import train_alone
from tests.app.failing_runs import make_data, make_spec, write_numbers
from trainshed.checkpoint import store as checkpoint
from trainshed.storage.addresses import open_folder
from trainshed_api.progress import CheckpointSaved, Evaluated

if TYPE_CHECKING:
    from pydantic import JsonValue


def test_the_best_checkpoint_is_one_that_was_scored(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    best: JsonValue = {"metric": "train.loss", "mode": "max"}
    spec = make_spec(
        data=make_data(),
        checkpoint={"everyEpochs": 1, "everySteps": 2, "keep": 50, "best": best},
    )

    left = train_alone(tmp_path, spec)

    scores = {e.step: e.metrics["train.loss"] for e in left.events if isinstance(e, Evaluated)}
    assert list(scores) == [5, 10, 15]
    saved = [open_folder(e.path) for e in left.events if isinstance(e, CheckpointSaved)]
    assert len(saved) > len(scores)
    found = {folder: checkpoint.verify(folder) for folder in saved}
    own = {
        m.position.step: m.own_metrics() for m in found.values() if m.position.step_in_epoch == 0
    }
    assert {step: metrics["train.loss"] for step, metrics in own.items()} == scores
    others = [m for m in found.values() if m.position.step_in_epoch]
    assert not any("train.loss" in m.own_metrics() for m in others)
    # What is logged in each step is of each.
    assert all("loss" in m.own_metrics() for m in others)
    chosen = checkpoint.best([saved[0].parent], "train.loss", "max")
    assert chosen
    assert chosen[1].metrics["train.loss"] == max(score or 0.0 for score in scores.values())
    assert "train.loss" in chosen[1].own_metrics()
