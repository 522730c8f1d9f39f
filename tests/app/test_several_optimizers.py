"""Losses for several optimizers of a step: each steps its own, as a loop by hand would."""

from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.builders_checkpoint import make_tracked
from tests.app.builders_rows import write_rows
from tests.builders import make_data
from trainshed.checkpoint import store as checkpoint
from trainshed_api.names import FAILED, SUCCEEDED

MOST = 0.1


def train(config: dict[str, object]) -> None:
    """Train a model whose loss goes through another one, which learns beside it."""
    torch.manual_seed(0)
    run = trainshed.current()
    first, second = nn.Linear(4, 1).double(), nn.Linear(4, 1).double()
    one = torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9)
    two = torch.optim.SGD(second.parameters(), lr=0.1, momentum=0.9)
    run.track(first, one, second=(second, two))
    parts = 0
    for _ in run.epochs():
        for batch in run.batches("train"):
            x, y = batch["x"].double(), batch["y"].double()
            loss = F.mse_loss((first(x) + second(x)).squeeze(1), y)
            match config["way"]:
                case "by hand":
                    step_by_hand(one, loss)
                    step_by_hand(two, F.mse_loss(second(x).squeeze(1), y), MOST)
                case "one by hand":
                    step_by_hand(two, F.mse_loss(second(x).squeeze(1), y))
                    run.backward_step(loss, optimizer=one)
                case "some parts":
                    run.backward_step(loss, optimizer=one)
                    parts += 1
                    if parts % 2 == config["part"]:
                        run.backward_step(second(x).mean(), optimizer=two)
                case "a strange optimizer":
                    strange = torch.optim.SGD(first.parameters(), lr=0.1)
                    run.backward_step(loss, optimizer=strange)
                case way:
                    weight = len(x) if way == "weighted" else None
                    run.backward_step(loss, weight=weight, optimizer=one)
                    loss = F.mse_loss(second(x).squeeze(1), y)
                    run.backward_step(loss, clip_norm=MOST, weight=weight, optimizer=two)


def step_by_hand(optimizer: torch.optim.Optimizer, loss: Tensor, most: float = 1e9) -> None:
    """Step an optimizer by the gradients of what it steps alone."""
    parameters = optimizer.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    nn.utils.clip_grad_norm_(parameters, most)
    optimizer.step()


def run(home: Path, way: str, accumulate: int = 1, part: int = 0) -> Left:
    """Train in a way."""
    write_rows(home / "rows", 48)
    return train_alone(
        home,
        {
            "train": f"{__name__}:train",
            "config": {"way": way, "part": part},
            "epochs": 2,
            "batchSize": 8,
            "accumulate": accumulate,
            "data": make_data(),
        },
    )


def weights_of(left: Left) -> Tensor:
    """Return all weights of both models."""
    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    folder, _, _ = checkpoint.newest([left.folder.checkpoints(1)])
    assert folder
    assert folder.path
    saved = checkpoint.load(folder.path, trust_objects=False)
    first, second = (cast("dict[str, Tensor]", saved[name]) for name in ("model", "second"))
    return torch.cat([each.flatten() for each in (*first.values(), *second.values())])


def test_each_loss_steps_its_own_optimizer_as_a_loop_by_hand(tmp_path: Path) -> None:
    want = weights_of(run(tmp_path / "want", "by hand"))

    for way in ("mean", "weighted"):
        for accumulate in (1, 2):
            found = weights_of(run(tmp_path / f"{way}{accumulate}", way, accumulate))
            torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12)


def test_an_optimizer_that_is_not_tracked_is_refused(tmp_path: Path) -> None:
    left = run(tmp_path, "a strange optimizer")

    assert left.verdict.outcome == FAILED
    assert "backward_step: got an optimizer that is not tracked" in left.verdict.message


def test_an_optimizer_that_the_function_steps_in_a_part_of_a_step_is_refused(
    tmp_path: Path,
) -> None:
    left = run(tmp_path, "one by hand", accumulate=2)

    assert left.verdict.outcome == FAILED
    assert "spec.accumulate: 2 parts of a step need backward_step" in left.verdict.message


@pytest.mark.parametrize("part", [0, 1], ids=["the last", "the first"])
def test_a_loss_in_one_part_of_a_step_is_refused(part: int, tmp_path: Path) -> None:
    left = run(tmp_path, "some parts", accumulate=2, part=part)

    assert left.verdict.outcome == FAILED
    assert "got losses for second.optimizer in some parts of a step" in left.verdict.message


@pytest.mark.parametrize("parts", [1, 2])
def test_one_scaler_serves_all_optimizers(parts: int) -> None:
    found = []
    for is_half in (False, True):
        torch.manual_seed(0)
        models = [nn.Linear(3, 1).double() for _ in range(2)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        # The scale changes at each update.
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1, enabled=is_half)
        tracked = make_tracked(
            models[0], optimizers[0], scaler=scaler, other=models[1], of_other=optimizers[1]
        )
        for _ in range(3):
            for part in range(parts):
                for model, optimizer in zip(models, optimizers, strict=True):
                    tracked.backward(model(torch.ones(2, 3).double()).square().mean(), optimizer)
                    if part == parts - 1:
                        tracked.step(optimizer)
        found.append(torch.cat([each.flatten() for model in models for each in model.parameters()]))

    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=0)
