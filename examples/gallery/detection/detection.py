"""Finds squares in pictures: each cell of a grid predicts whether a square has its center there.

Pictures have different numbers of boxes. `to_grid` is the function of feed.collate, which turns the
boxes of each picture into targets of one shape.
"""

from typing import NamedTuple

import numpy as np
import torch
import trainshed
from numpy.typing import NDArray
from ray.train.torch import prepare_model
from torch import Tensor, nn
from torch.nn import functional as F

CELLS, STRIDE = 8, 4  # 8 x 8 cells of 4 pixels


class Scene(NamedTuple):
    """A batch: image (rows, 1, 32, 32); center and side (rows, 8, 8), 0 in cells without one."""

    image: Tensor
    center: Tensor
    side: Tensor


def to_grid(batch: dict[str, NDArray[np.generic]]) -> Scene:
    """Return pictures, and their boxes as a grid."""
    center, side = torch.zeros(2, len(batch["image"]), CELLS, CELLS)
    for row, boxes in enumerate(batch["boxes"]):
        for x, y, length in boxes:
            cell = row, int(y + length / 2) // STRIDE, int(x + length / 2) // STRIDE
            center[cell], side[cell] = 1, length
    return Scene(torch.as_tensor(batch["image"])[:, None].float() / 255, center, side)


class Detector(nn.Module):
    """Four convolutions, two of which halve the picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(width, width, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(width, 2, 1),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logit of a center and the side of its square, (rows, 8, 8) each."""
        logits, side = self.layers(image).unbind(dim=1)
        return logits, side


def train(config: dict[str, float]) -> None:
    """Train on the dataset `train`, and evaluate on `valid` after each epoch."""
    model = prepare_model(Detector(int(config["width"])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    run = trainshed.current()
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train", of=Scene):
            logits, side = model(batch.image)
            found = F.binary_cross_entropy_with_logits(logits, batch.center)
            loss = found + 0.1 * F.smooth_l1_loss(side * batch.center, batch.side)
            run.backward_step(loss)
            run.log(loss=loss)
        run.evaluate(score)


def score(model: nn.Module, batch: Scene) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the share of centers that are found, and their F1 score: sums and counts."""
    logits, _ = model(batch.image)
    found, wanted = logits > 0, batch.center > 0
    right = (found & wanted).sum()
    return {"recall": (right, wanted.sum()), "f1": (2 * right, wanted.sum() + found.sum())}
