"""Functions of a user that predict, for tests."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from ray.train.torch import prepare_model
from torch import Tensor, nn

import trainshed
from trainshed.checkpoint.manifest import Prediction


def build(config: Mapping[str, object]) -> nn.Module:
    """Return a linear model."""
    return nn.Linear(int(str(config["width"])), 3)


def predict(model: nn.Module, batch: dict[str, Tensor], about: Prediction) -> dict[str, Tensor]:
    """Return the class and the sum of a row; raise while the file that the config names exists.

    If the file says "exit", the process ends.
    """
    stop = Path(str(about.config["stop"]))
    if stop.exists() and int(batch["row"].max()) >= 20:
        if stop.read_text() == "exit":
            os._exit(1)
        raise RuntimeError("stopped")
    return {"prediction": model(batch["x"]).argmax(dim=1), "sum": batch["x"].sum(dim=1)}


def train(config: dict[str, object]) -> None:
    """Train it a little."""
    run = trainshed.current()
    model = prepare_model(build(config))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.describe_model(
        classes=["low", "middle", "high"], builder=build, predict=predict, config=config
    )
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(model(batch["x"]).square().mean())


def train_without_description(config: dict[str, object]) -> None:
    """Train a model that no checkpoint describes."""
    run = trainshed.current()
    model = prepare_model(build(config))
    run.track(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(model(batch["x"]).square().mean())
