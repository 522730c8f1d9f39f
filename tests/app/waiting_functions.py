"""Training functions whose rows do not come, and what keeps them from coming."""

import threading
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
import trainshed.boosting
from trainshed.attempt.signals import Stop
from trainshed.boosting.matrix_columns import MatrixColumns
from trainshed.worker.active_run import running

# Batches with rows from this one on, of the fourth step, do not come before `released`.
FIRST_HELD = 90
# Who waits for them is to stop, once so many steps are done.
stop: Stop | None = None
steps_before = 0
# How often these rows are read before they are held.
reads_before = 0
released = threading.Event()
MOST_SECONDS = 30


def hold(rows: dict[str, NDArray[np.generic]]) -> dict[str, Tensor]:
    """Return a batch; ask for a stop at the first one that is held, and block there."""
    hold_rows(rows)
    return {name: torch.as_tensor(rows[name]) for name in ("x", "y")}


def hold_rows(rows: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return rows, as `hold` does."""
    global reads_before  # noqa: PLW0603 - a function of a run file is called without arguments
    if stop and max(rows["row"]) >= FIRST_HELD and (run := running()):
        reads_before -= 1
        if reads_before >= 0:
            return rows
        deadline = time.monotonic() + MOST_SECONDS
        while run.step < steps_before and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.order("Suspended", 60.0)
        released.wait(MOST_SECONDS)
    return rows


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


def train_on_two() -> None:
    """Train on `train` and `other`; the same random numbers are drawn in each step."""
    run = trainshed.current()
    model = nn.Linear(4, 1)
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for _ in run.epochs():
        others = iter(run.batches("other"))
        for batch in run.batches("train"):
            loss = F.mse_loss(model(F.dropout(batch["x"])).squeeze(1), batch["y"])
            other = next(others)
            loss += F.mse_loss(model(F.dropout(other["x"])).squeeze(1), other["y"])
            run.backward_step(loss)


def boost() -> None:
    """Grow trees on `train`."""
    run = trainshed.boosting.current()
    rows = run.matrix("train", MatrixColumns("y", ("x",)))
    run.boost({"objective": "reg:squarederror"}, rows, 3)
