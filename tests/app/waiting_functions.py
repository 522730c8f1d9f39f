"""Training functions whose rows do not come, and what keeps them from coming."""

import threading
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.attempt.signals import Stop
from trainshed.worker.active_run import running

# Batches with rows from this one on, of the fourth step, do not come before `released`.
FIRST_HELD = 90
# Who waits for them is to stop, once so many steps are done.
stop: Stop | None = None
steps_before = 0
released = threading.Event()
MOST_SECONDS = 30


def hold(rows: dict[str, NDArray[np.generic]]) -> dict[str, Tensor]:
    """Ask for a stop at the first batch that is held, and keep all who wait waiting."""
    if stop and max(rows["row"]) >= FIRST_HELD and (run := running()):
        deadline = time.monotonic() + MOST_SECONDS
        while run.step < steps_before and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.order("Suspended", 60.0)
        released.wait(MOST_SECONDS)
    return {name: torch.as_tensor(rows[name]) for name in ("x", "y")}


def train() -> None:
    """Train on `train`, then evaluate on `valid`."""
    run = trainshed.current()
    model = nn.Linear(4, 1)
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}

    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(F.mse_loss(model(batch["x"]).squeeze(1), batch["y"]))
        run.evaluate(score)
