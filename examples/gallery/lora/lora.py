"""Adapts a trained network by low-rank updates of its layers (LoRA), without a package for it.

`train` trains the network on digits. `adapt` freezes its weights, and trains two thin matrices for
each layer so that it reads the same digits with black and white exchanged.
"""

import math

import numpy as np
import torch
import trainshed
from numpy.typing import NDArray
from ray.train.torch import prepare_model
from torch import Tensor, nn
from torch.nn import functional as F

Batch = dict[str, Tensor]


class LowRank(nn.Module):
    """A frozen linear layer plus a trained product of two thin matrices."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, frozen.in_features) / math.sqrt(rank))
        self.up = nn.Parameter(torch.zeros(frozen.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer gives with the update added to its weights."""
        return self.frozen(x) + x @ self.down.T @ self.up.T


def build(_config: dict[str, float]) -> nn.Sequential:
    """Return a network for pictures of 8 x 8 pixels; `trainshed.load` builds it like this."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def train(config: dict[str, float]) -> None:
    """Train the whole network."""
    trainshed.current().describe_model(builder=build, predict=predict, config=config)
    fit(build(config), config["learningRate"])


def adapt(config: dict[str, str | float]) -> None:
    """Train low-rank updates of the network that the run `config["base"]` has trained."""
    network = trainshed.load(str(config["base"])).model
    assert isinstance(network, nn.Sequential)
    for number, layer in enumerate(network):
        if isinstance(layer, nn.Linear):
            network[number] = LowRank(layer, int(config["rank"]))
    fit(network, float(config["learningRate"]))


def fit(network: nn.Module, learning_rate: float) -> None:
    """Train the parameters that are not frozen, and evaluate after each epoch."""
    model = prepare_model(network)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=learning_rate)
    run = trainshed.current()
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train"):
            loss = F.cross_entropy(model(batch["image"].float() / 255), batch["label"])
            run.backward_step(loss)
            run.log(loss=loss)
        run.evaluate(score)


def predict(model: nn.Module, batch: Batch) -> Tensor:
    """Return the digit of each picture, for `trainshed predict`."""
    return model(batch["image"].float() / 255).argmax(dim=1)


def score(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the accuracy of each row."""
    return {"accuracy": (predict(model, batch) == batch["label"]).float()}


def invert(batch: dict[str, NDArray[np.uint8]]) -> dict[str, NDArray[np.uint8]]:
    """Return pictures with black and white exchanged; a transform."""
    return {**batch, "image": 255 - batch["image"]}
