"""Training functions that tests name in `spec.train`; they run in Ray's workers."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import ray.train.torch
import torch
from torch import nn
from torch.nn import functional as F

import trainshed
from trainshed.attempt.signals import Stop
from trainshed.worker.current import Run

# Set by a test in this process, for a config with `suspendAt`.
stop: Stop | None = None


def make_network(width: int = 4) -> nn.Module:
    """Return what `regress` trains: its dropout draws, and its statistics differ between ranks."""
    layers = (
        nn.Linear(width, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 1),
    )
    return nn.Sequential(*layers)


def regress(config: dict[str, object]) -> None:
    """Train a small network on columns x and y and score it; dies where the config says.

    `killWorkerAt` and `killDriverAt` are steps; each kills once, remembered by a file beside the
    folder `run`.
    """
    run = trainshed.current()
    regress_as(run, make_network(), lambda: die(config, run.step, run.rank))


def regress_as(
    run: Run,
    network: nn.Module,
    before_step: Callable[[], None],
    before_score: Callable[[], None] = lambda: None,
) -> None:
    """Train a network on columns x and y and score it; something is done before each batch."""
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    run.track(model, optimizer, scheduler)

    def score(module: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        before_score()
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}

    for _ in run.epochs():
        for batch in run.batches("train"):
            before_step()
            loss = F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            run.backward_step(loss)
            run.log(loss=loss)
        if "valid" in run.datasets:
            run.evaluate(score)


def die(config: dict[str, object], step: int, rank: int) -> None:
    """Kill the worker or the driver where the config says."""
    if rank == 1 and _once(config, "killWorkerAt", step):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0 and _once(config, "killDriverAt", step):
        claims = sorted(Path(str(config["run"])).glob("attempts/*/claim"))
        os.kill(json.loads(claims[-1].read_text())["pid"], signal.SIGKILL)
        time.sleep(60)  # Ray takes a moment to follow its driver; no step may be made in it


def linger(config: dict[str, object]) -> None:
    """Take longer for a step, as long as the file is not there that `hurry` names."""
    if "hurry" in config and not Path(str(config["hurry"])).exists():
        time.sleep(0.3)


def suspend(config: dict[str, object], step: int) -> None:
    """Order the stop that a test in this process has set, once the step `suspendAt` is there."""
    if stop is not None and step >= int(str(config["suspendAt"])):
        stop.order("Suspended", 60)
        time.sleep(0.3)  # longer than ranks go without agreeing


def _once(config: dict[str, object], key: str, step: int) -> bool:
    if config.get(key) != step:
        return False
    mark = Path(str(config["run"])).with_name(key)
    if mark.exists():
        return False
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return True
