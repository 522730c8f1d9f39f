"""Runs steps that only compute, with checkpoints that a thread writes to any storage."""

from __future__ import annotations

import time

import torch

from benchmarks.plain.program import start
from trainshed.checkpoint.manifest import Manifest, Position
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.store import Content
from trainshed.checkpoint.writer import Writer
from trainshed.data.sampler.permutation import ORDER
from trainshed.storage.addresses import open_folder

# Of a step: about a tenth of a second of one core.
SIDE = 1200


def main(*, storage: str, megabytes: int, steps: int, every: int) -> dict[str, float]:
    """Train, and write how long it took."""
    torch.set_num_threads(1)
    model = {"weight": torch.zeros(megabytes * 2**18)}
    copied = {"weight": torch.empty_like(model["weight"])}
    writer = Writer(open_folder(storage), trust_objects=False)
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    began = time.perf_counter()
    blocked = 0.0
    for step in range(1, steps + 1):
        left @ right
        if every and step % every == 0:
            stopped = time.perf_counter()
            writer.wait_for_memory()
            copied["weight"].copy_(model["weight"])
            writer.begin(Content(TORCH, {"model": copied}, {}), manifest_of(step))
            blocked += time.perf_counter() - stopped
    stepping = time.perf_counter() - began
    writer.wait()
    failed = [str(done.error) for done in writer.finished if done.error]
    assert not failed, failed
    return {"stepping": stepping, "blocked": blocked, "all": time.perf_counter() - began}


def manifest_of(step: int) -> Manifest:
    """Return what a checkpoint says of itself."""
    position = Position(epoch=0, step_in_epoch=step, step=step)
    return Manifest(order=ORDER, position=position, workers=1, spec_hash="a", attempt=1, metrics={})


if __name__ == "__main__":
    start(main)
