"""Runs steps that only compute, with checkpoints that a thread writes to any storage."""

import time

import torch

from trainshed.checkpoint.manifest import Manifest, Position
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.store import Content
from trainshed.checkpoint.writer import Writer
from trainshed.data.sampler.permutation import ORDER
from trainshed.storage.addresses import open_folder

# Side of the matrices of a step, whose product takes about 0.1 s on one core.
SIDE = 1200


def main(*, storage: str, megabytes: int, steps: int, every: int) -> dict[str, float]:
    """Run the steps, with a checkpoint after each `every` steps, or none if it is 0.

    Returns:
        Seconds of all steps, seconds blocked by checkpoints, seconds until all are written.
    """
    torch.set_num_threads(1)
    model = {"weight": torch.zeros(megabytes * 2**18)}
    copied = {"weight": torch.empty_like(model["weight"])}
    writer = Writer(open_folder(storage), trust_objects=False)
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    started = time.perf_counter()
    blocked = 0.0
    for step in range(1, steps + 1):
        left @ right
        if every and step % every == 0:
            paused = time.perf_counter()
            writer.wait_for_memory()
            copied["weight"].copy_(model["weight"])
            writer.begin(Content(TORCH, {"model": copied}, {}), make_manifest(step))
            blocked += time.perf_counter() - paused
    stepping = time.perf_counter() - started
    writer.wait()
    errors = [str(written.error) for written in writer.finished if written.error]
    assert not errors, errors
    return {"stepping": stepping, "blocked": blocked, "all": time.perf_counter() - started}


def make_manifest(step: int) -> Manifest:
    """Return the manifest of the checkpoint after a step."""
    position = Position(epoch=0, step_in_epoch=step, step=step)
    return Manifest(order=ORDER, position=position, workers=1, spec_hash="a", attempt=1, metrics={})
