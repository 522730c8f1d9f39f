"""Training functions that go wrong, or that can be watched while they are stopped."""

import errno
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import ray.train.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.worker.current import Run

# The step under way when a function goes wrong: one that no checkpoint precedes or follows; and
# the step at which there is room again on a disk that was full.
WRONG_AT, ROOM_AT = 7, 13


def train(config: dict[str, object]) -> None:
    """Train on columns x and y and evaluate; goes wrong at a step as `config["how"]` says."""
    run = trainshed.current()
    how = str(config.get("how"))
    # Wide enough for its checkpoint to be larger than a log.
    network = nn.Sequential(nn.Linear(4, 20_000), nn.Linear(20_000, 1))
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    run.track(model, optimizer)

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}

    for _ in run.epochs():
        for batch in run.batches("train"):
            wrong = run.step + 1 == WRONG_AT
            if wrong and run.rank == run.world_size - 1:
                go_wrong(how)
            if run.step + 1 == ROOM_AT and how == "fill the disk for a while":
                limit_files(resource.RLIM_INFINITY)
            loss = F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            run.backward_step(loss * torch.nan if wrong and how == "nan" else loss)
            run.log(loss=loss)
        run.evaluate(score, "train")


def report_alone() -> None:
    """Report checkpoints for a minute, as a function of Ray Train's alone."""
    for epoch in range(1, 61):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": 1 / epoch}, checkpoint=checkpoint)
        time.sleep(1)


def go_wrong(how: str) -> None:
    """Do what the user's code might."""
    match how:
        case "raise":
            look_up({"label": 1}, "lable")
        case "exit":
            sys.exit(3)
        case "EIO" | "ENOMEM" | "ENOSPC":
            number = getattr(errno, how)
            raise OSError(number, os.strerror(number), "/data/pictures")
        case "fill the disk" | "fill the disk for a while":
            limit_files(100_000)


def limit_files(size: int) -> None:
    """Refuse this process larger files, as a full disk would."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def look_up(columns: dict[str, int], name: str) -> int:
    """Return a column, the user's way."""
    return columns[name]


def halve(batch: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Fail on a row that is no part of the samples of a preflight."""
    if 49 in batch["row"]:
        raise LookupError("no half of a row")
    return batch


def watched(config: dict[str, object]) -> None:
    """Note each finished step's rows in `notes`, and the step at which the function was left.

    A step takes `seconds` until there is a file `hurry`, and does not end while there is a file
    `hold`; `sleepAt` is a step that never ends.
    """
    run = trainshed.current()
    model = ray.train.torch.prepare_model(nn.Linear(4, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=0.01))
    notes = Path(str(config["notes"]))
    with noting(notes, run) as rows_by_step:
        for epoch in run.epochs():
            for batch in run.batches("train"):
                if config.get("sleepAt") == run.step:
                    (notes / "asleep").write_text(str(os.getpid()), encoding="ascii")
                    time.sleep(600)
                loss = F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
                run.backward_step(loss)
                run.log(loss=loss)
                rows_by_step.append([epoch, batch["row"].tolist()])
                if not (notes / "hurry").exists():
                    time.sleep(float(str(config["seconds"])))
                while (notes / "hold").exists():
                    time.sleep(0.05)


@contextmanager
def noting(notes: Path, run: Run) -> Iterator[list[object]]:
    """Write what was noted however the block is left, by a stop too."""
    rows: list[object] = []
    try:
        yield rows
    finally:
        note = {"rank": run.rank, "workers": run.world_size, "step": run.step, "rows": rows}
        name = f"{time.time_ns()}-rank{run.rank}.json"
        (notes / name).write_text(json.dumps(note), encoding="utf-8")
