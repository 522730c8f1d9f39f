"""Stops training when the validation loss has not improved for some epochs."""

import math

import torch
import trainshed
from ray.train.torch import prepare_model
from torch import Tensor, nn
from torch.nn import functional as F

Batch = dict[str, Tensor]


class Patience:
    """Counts the epochs without a better loss; `run.track` saves and restores the count."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.best, self.waited = epochs, math.inf, 0

    def is_over(self, loss: float) -> bool:
        """Return whether `loss` ends the run."""
        self.best, self.waited = (loss, 0) if loss < self.best else (self.best, self.waited + 1)
        return self.waited >= self.epochs

    def state_dict(self) -> dict[str, float]:
        """Return what a checkpoint needs."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from a checkpoint."""
        self.best, self.waited = state["best"], int(state["waited"])


def build() -> nn.Module:
    """Return a network for pictures of 8 x 8 pixels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))


def train(config: dict[str, float]) -> None:
    """Train until the loss of the dataset `valid` stops improving."""
    model = prepare_model(build())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    patience = Patience(int(config["patience"]))
    run = trainshed.current()
    run.describe_model(builder=build, predict=predict)
    run.track(model, optimizer, patience=patience)
    for _ in run.epochs():
        for batch in run.batches("train"):
            loss = losses(model, batch).mean()
            run.backward_step(loss)
            run.log(loss=loss)
        if patience.is_over(run.evaluate(score)["valid.loss"]):
            return  # what is trained becomes the last checkpoint


def score(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the loss of each row."""
    return {"loss": losses(model, batch)}


def predict(model: nn.Module, batch: Batch) -> Tensor:
    """Return the digit of each picture, for `trainshed predict`."""
    return model(batch["image"].float() / 255).argmax(dim=1)


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of each row."""
    return F.cross_entropy(model(batch["image"].float() / 255), batch["label"], reduction="none")
