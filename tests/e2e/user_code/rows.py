"""A training function that writes down the rows of each step, and a transform that marks rows."""

import json
import time
from pathlib import Path
from typing import TypedDict

import numpy as np
import ray.train.torch
import torch
from numpy.typing import NDArray

import trainshed

Batch = dict[str, NDArray[np.generic]]
# Of a node's id, as many as a whole number of 64 bits holds.
NODE_DIGITS = 15


class Config(TypedDict):
    """What the TrainingRun says; notes: folder to write into."""

    secondsPerStep: float
    notes: str


def train(config: Config) -> None:
    """Train on column `draw`, and write a line for each step before it counts.

    Each start has a file of its own: what of a lost start still runs for a moment cannot write
    between the lines of the one that goes on.
    """
    run = trainshed.current()
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    notes = Path(config["notes"])
    notes.mkdir(parents=True, exist_ok=True)
    begun = {"started": time.time(), "rank": run.rank, "done": run.step}
    with (notes / f"rows-{time.time_ns()}-{run.rank}").open("a", encoding="ascii") as lines:
        for epoch in run.epochs():
            for batch in run.batches("train"):
                time.sleep(config["secondsPerStep"])
                run.backward_step(model(batch["draw"][:, None] / 1000).square().mean())
                columns = {name: batch[name].tolist() for name in ("id", "draw", "node", "made")}
                noted = {"at": time.time(), "step": run.step + 1, "epoch": epoch}
                lines.write(json.dumps({**begun, **noted, **columns}) + "\n")
                lines.flush()


def marked(batch: Batch, *, seconds_per_row: float = 0.0) -> Batch:
    """Return the rows with the node that they were made on, and the time; it takes its time.

    node: the first digits of the node's id, as a number.
    """
    rows = len(batch["id"])
    time.sleep(seconds_per_row * rows)
    node = int(ray.get_runtime_context().get_node_id()[:NODE_DIGITS], 16)
    return {
        **batch,
        "node": np.full(rows, node, dtype=np.int64),
        "made": np.full(rows, time.time(), dtype=np.float64),
    }
