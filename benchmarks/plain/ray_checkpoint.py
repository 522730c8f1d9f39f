"""Checkpoints of Ray Train as its guides write them."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint


def load_checkpoint() -> dict[str, Any] | None:
    """Return the state of the last checkpoint; None before the first one."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        state: dict[str, Any] = torch.load(Path(folder) / "state.pt")
    return state


def report(metrics: dict[str, Any], state: Mapping[str, object]) -> None:
    """Report metrics, with a checkpoint of the state from rank 0."""
    if ray.train.get_context().get_world_rank() != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
