"""Trains on digits, and once kills one of its workers, as a lost node would."""

import os
import signal
from pathlib import Path

import torch
import trainshed
from ray.train.torch import prepare_model
from torch import Tensor, nn


def train(config: dict[str, float | str]) -> None:
    """Train; the first time that step `config["killAt"]` is reached, a worker is killed."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = prepare_model(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    run = trainshed.current()
    run.track(model, optimizer)
    killed = Path(os.environ["TRAINSHED_HOME"]) / "killed"
    for _ in run.epochs():
        for batch in run.batches("train"):
            if run.rank == 1 and run.step == config["killAt"] and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            loss = nn.functional.cross_entropy(model(scaled(batch)), batch["label"])
            run.backward_step(loss)
            run.log(loss=loss)
        run.evaluate(score)


def score(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the accuracy of each row."""
    return {"accuracy": (model(scaled(batch)).argmax(dim=1) == batch["label"]).float()}


def scaled(batch: dict[str, Tensor]) -> Tensor:
    """Return pictures from 0 to 1."""
    return batch["image"].float() / 255
