"""A training function that writes down the loss of each step, to the last bit."""

from pathlib import Path
from typing import TypedDict

import ray.train.torch
import torch
from torch.nn import functional as F

import trainshed


class Config(TypedDict):
    """What the TrainingRun says: the folder to write into."""

    notes: str


def train(config: Config) -> None:
    """Train a small network on the digits, and write a line for each step."""
    run = trainshed.current()
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    model = ray.train.torch.prepare_model(network)
    run.track(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    lines = []
    for _ in run.epochs():
        for batch in run.batches("train"):
            images = batch["image"].float() / 255
            loss = F.cross_entropy(model(images), batch["label"])
            run.backward_step(loss)
            lines.append(f"{run.step + 1} {float(loss).hex()}\n")
    notes = Path(config["notes"])
    notes.mkdir(parents=True, exist_ok=True)
    (notes / f"losses-{run.rank}").write_text("".join(lines), encoding="ascii")
