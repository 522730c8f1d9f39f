"""Digits as lists of their dark pixels: rows are ragged, as their numbers differ.

`inked` is a transform, `padded` collates a batch of its rows, `train` learns to classify them.
Shape letters: B rows of a batch, P positions in the longest row.
"""

from typing import NamedTuple

import numpy as np
import ray.train.torch
import torch
import trainshed
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

Columns = dict[str, NDArray[np.generic]]

PLACES = 64


class Inked(NamedTuple):
    """A batch: position and ink (B, P), zero ink as padding; label (B,)."""

    place: Tensor
    ink: Tensor
    label: Tensor


def inked(batch: Columns) -> Columns:
    """Return the positions with ink in each picture, and the ink from 0 to 1: an array per row."""
    pictures = batch["image"].reshape(len(batch["image"]), PLACES)
    place, ink = (np.empty(len(pictures), dtype=object) for _ in range(2))
    for number, picture in enumerate(pictures):
        place[number] = np.flatnonzero(picture)
        ink[number] = picture[place[number]].astype(np.float32) / 255
    return {"place": place, "ink": ink, "label": batch["label"]}


def padded(batch: Columns) -> Inked:
    """Return rows of different lengths as padded tensors."""
    place, ink = (
        pad_sequence([torch.as_tensor(row) for row in batch[name]], batch_first=True)
        for name in ("place", "ink")
    )
    return Inked(place, ink, torch.as_tensor(batch["label"]))


class Reader(nn.Module):
    """Sums an embedding of each position, weighted by its ink."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.places = nn.Embedding(PLACES, width)
        self.digit = nn.Sequential(nn.ReLU(), nn.Linear(width, 10))

    def forward(self, place: Tensor, ink: Tensor) -> Tensor:
        """Return logits (B, 10)."""
        return self.digit((self.places(place) * ink[:, :, None]).sum(dim=1))


def score(module: nn.Module, batch: Inked) -> dict[str, Tensor]:
    """Return the loss and the accuracy of each row, (B,) each."""
    logits = module(batch.place, batch.ink)
    loss = F.cross_entropy(logits, batch.label, reduction="none")
    return {"loss": loss, "accuracy": (logits.argmax(dim=1) == batch.label).float()}


def check_config(config: dict[str, object]) -> None:
    """Check the config of `train`; called before anything starts."""
    if config.keys() != {"width", "learningRate"}:
        raise ValueError(f"got {', '.join(config) or 'nothing'}; expected width and learningRate")


def train(config: dict[str, float]) -> None:
    """Train on the dataset `train`, and evaluate on `valid` after each epoch."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(Reader(int(config["width"])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train", of=Inked):
            loss = F.cross_entropy(model(batch.place, batch.ink), batch.label)
            run.backward_step(loss)
            run.log(loss=loss)
        run.evaluate(score)
