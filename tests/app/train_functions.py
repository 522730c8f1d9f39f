"""Training functions that tests name in `spec.train`; they run in Ray's workers."""

import json
import os
import signal
import time
from pathlib import Path

import ray.train.torch
import torch
from torch import nn
from torch.nn import functional as F

import trainshed


def regress(config: dict[str, object]) -> None:
    """Train a small network with dropout on columns x and y; dies where the config says.

    `killWorkerAt` and `killDriverAt` are steps; each kills once, remembered by a file in `marks`.
    """
    run = trainshed.current()
    model = ray.train.torch.prepare_model(
        nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    run.track(model, optimizer, scheduler)

    def score(module: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}

    for _ in run.epochs():
        for batch in run.batches("train"):
            _die(config, run.step, run.rank)
            loss = F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            run.backward_step(loss)
            run.log(loss=loss)
        if "valid" in run.datasets:
            run.evaluate(score)


def score_once(config: dict[str, object]) -> None:
    """Evaluate a fixed network with BatchNorm on `valid` whose statistics differ between ranks."""
    run = trainshed.current()
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8)
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, 1)))
    run.track(model)
    assert norm.running_mean is not None
    norm.running_mean.copy_(torch.arange(8.0) + run.rank)  # as after a step: ranks differ

    def score(module: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        with Path(str(config["seen"]), f"rank{run.rank}").open("a", encoding="utf-8") as file:
            file.writelines(f"{row}\n" for row in batch["row"].tolist())
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}

    for _ in run.epochs():
        run.evaluate(score)


def _die(config: dict[str, object], step: int, rank: int) -> None:
    if rank == 1 and _once(config, "killWorkerAt", step):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0 and _once(config, "killDriverAt", step):
        claims = sorted(Path(str(config["run"])).glob("attempts/*/claim"))
        os.kill(json.loads(claims[-1].read_text())["pid"], signal.SIGKILL)
        time.sleep(60)  # Ray takes a moment to follow its driver; no step may be made in it


def _once(config: dict[str, object], key: str, step: int) -> bool:
    if config.get(key) != step:
        return False
    mark = Path(str(config["run"])).with_name(key)
    if mark.exists():
        return False
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return True
