"""A function that leaves before its last epoch leaves a checkpoint of what it trained."""

from pathlib import Path
from typing import cast

import pytest
import torch
from pydantic import JsonValue
from torch import nn
from torch.nn import functional as F

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.builders import make_data
from trainshed.checkpoint import store as checkpoint
from trainshed.worker.current import Run
from trainshed_api.names import SUCCEEDED
from trainshed_api.records import ResultRecord

EPOCHS = 4
STEPS_PER_EPOCH = 3


class Trained:
    """A line that counts how often its weights changed."""

    def __init__(self, run: Run, *, own_step: bool) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 1)
        self.model.register_buffer("steps", torch.zeros(1))
        self._run = run
        self._own_step = own_step
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        run.track(self.model, self._optimizer)

    def step(self, batch: dict[str, torch.Tensor]) -> None:
        """Make a step, and count it in the weights."""
        loss = F.mse_loss(self.model(batch["x"]).squeeze(1), batch["y"])
        if self._own_step:
            torch.autograd.backward(loss)
            self._optimizer.step()
            self._optimizer.zero_grad()
        else:
            self._run.backward_step(loss)
        cast("torch.Tensor", self.model.steps).add_(1)

    def evaluate(self) -> None:
        """Score the rows by how many steps the weights have."""

        def score(module: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            steps = cast("torch.Tensor", module.steps)
            return {"steps": steps.expand(len(batch["x"]))}

        self._run.evaluate(score, "train")


def train(config: dict[str, object]) -> None:
    """Train, and leave as `config["way"]` says."""
    run = trainshed.current()
    trained = Trained(run, own_step=bool(config["own_step"]))
    way = str(config["way"])
    held = None
    for epoch in run.epochs():
        batches = run.batches("train")
        held = batches if "held" in way else None
        for batch in batches if held else run.batches("train"):
            trained.step(batch)
            if way.startswith("return") and run.step == STEPS_PER_EPOCH + 1:
                HELD.append(held)
                return
            if way.startswith("break from") and run.step % STEPS_PER_EPOCH == 1:
                break
        trained.evaluate()
        if way.startswith("break") and epoch == 1:
            break


HELD: list[object] = []
# How a function leaves, and the steps that it has trained by then.
WAYS = {
    "return in mid-epoch": STEPS_PER_EPOCH + 2,
    "return from a held iterator": STEPS_PER_EPOCH + 2,
    "break after evaluate": 2 * STEPS_PER_EPOCH,
    "break from the inner loop": 5,
    "break from a held inner loop": 5,
    "to the end": EPOCHS * STEPS_PER_EPOCH,
}


def run(home: Path, way: str, *, own_step: bool = False, **spec: JsonValue) -> Left:
    """Train until the function leaves in a way."""
    write_rows(home / "rows", 8 * STEPS_PER_EPOCH)
    return train_alone(
        home,
        {
            "train": f"{__name__}:train",
            "config": {"way": way, "own_step": own_step},
            "epochs": EPOCHS,
            "batchSize": 8,
            "data": make_data(),
            **spec,
        },
    )


def steps_in(folder: Path) -> int:
    """Return how many steps the weights of a checkpoint have."""
    return int(torch.load(folder / "model.pt", weights_only=True)["steps"].item())


@pytest.mark.parametrize("own_step", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_last_checkpoint_has_every_step_that_was_trained(
    way: str, own_step: bool, tmp_path: Path
) -> None:
    left = run(tmp_path, way, own_step=own_step)
    HELD.clear()

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    result = ResultRecord.model_validate_json((left.path / "result.json").read_text())
    assert result.checkpoint
    assert result.checkpoint.step == result.step == WAYS[way]
    assert steps_in(Path(result.checkpoint.path)) == WAYS[way]


def test_a_function_that_asks_for_batches_has_begun_its_steps(tmp_path: Path) -> None:
    assert run(tmp_path, "return in mid-epoch").steps_begun


def test_the_score_and_the_best_checkpoint_are_of_weights_that_exist(tmp_path: Path) -> None:
    best: JsonValue = {"metric": "train.steps", "mode": "max"}
    left = run(tmp_path, "break after evaluate", checkpoint={"best": best})

    result = ResultRecord.model_validate_json((left.path / "result.json").read_text())
    assert result.best
    assert steps_in(Path(result.best.path)) == result.metrics["train.steps"] == 2 * STEPS_PER_EPOCH


def test_a_run_to_its_end_writes_no_checkpoint_more(tmp_path: Path) -> None:
    left = run(tmp_path, "to the end", checkpoint={"keep": 9})

    assert len(checkpoint.candidates([left.folder.checkpoints(1)])) == EPOCHS


def test_a_function_that_leaves_writes_none_where_none_are_asked_for(tmp_path: Path) -> None:
    left = run(tmp_path, "return in mid-epoch", checkpoint={"everyEpochs": 0})

    assert checkpoint.candidates([left.folder.checkpoints(1)]) == []
