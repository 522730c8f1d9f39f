"""A training function as a user brings it: slow steps, and an error where it is told to."""

import time
from pathlib import Path
from typing import TypedDict

import ray.train.torch
import torch
from torch.nn import functional as F

import trainshed


class Config(TypedDict):
    """What the TrainingRun says.

    notes: folder for the steps that each start of the function finds done, and for the times of the
    first step and of the error. failsAt: the step; 0 for none.
    """

    secondsPerStep: float
    failsAt: int
    notes: str


def train(config: Config) -> None:
    """Train on the column `label` alone."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    notes = Path(config["notes"])
    notes.mkdir(parents=True, exist_ok=True)
    with (notes / "starts").open("a", encoding="ascii") as starts:
        starts.write(f"{run.step}\n")
    for _ in run.epochs():
        for batch in run.batches("train"):
            time.sleep(config["secondsPerStep"])
            if run.step + 1 == config["failsAt"]:
                note(notes / "raised")
                raise ValueError("no such colour: green")
            labels = batch["label"].float().unsqueeze(1)
            run.backward_step(F.mse_loss(model(labels), labels))
            if run.step == 0:
                note(notes / "first-step")


def note(file: Path) -> None:
    """Write down what time it is, seconds since 1970."""
    file.write_text(str(time.time()), encoding="ascii")
