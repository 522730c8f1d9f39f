"""A training function that is asked to stop in the middle of an evaluation; random all along."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.attempt.signals import Stop
from trainshed.worker.current import Run

# Asked in the evaluation after this epoch, at this batch of it; None: it is not asked.
EPOCH, BATCH = 1, 2
stop: Stop | None = None


def train() -> None:
    """Train with dropout; evaluate with noise."""
    run = trainshed.current()
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    batches = 0

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        nonlocal batches
        batches += 1
        noise = torch.rand(len(batch["y"]))
        if stop and epoch == EPOCH and batches == BATCH:
            ask_to_stop(run, stop)
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2 + noise}

    for epoch in run.epochs():  # noqa: B007 - `score` looks at it
        for batch in run.batches("train"):
            run.backward_step(F.mse_loss(model(batch["x"]).squeeze(1), batch["y"]))
        batches = 0
        run.evaluate(score, "train")


def ask_to_stop(run: Run, stop: Stop) -> None:
    """Have the run asked, and wait until its worker has heard of it."""
    stop.order("Suspended", 60.0)
    deadline = time.monotonic() + 30
    while not run._loop.wants_stop and time.monotonic() < deadline:
        time.sleep(0.01)
