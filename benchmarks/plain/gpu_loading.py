"""Trains on images on a GPU, from DataLoader or by repeating one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from benchmarks.plain.case import Case
from benchmarks.plain.clock import EpochClock
from benchmarks.plain.residual import build_optimizer, build_residual, loss_of, synchronized
from benchmarks.plain.torch_loading import Pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Batch = Mapping[str, torch.Tensor]


def make_loader(case: Case, workers: int) -> Iterable[Batch]:
    """Return a DataLoader that shuffles and pins memory."""
    return DataLoader(
        Pictures(case),
        case.batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
        pin_memory=True,
        drop_last=True,
    )


def repeat_batch(case: Case, device: torch.device) -> Iterable[Batch]:
    """Return one random batch on a device, repeated for each step of an epoch."""
    loader = DataLoader(Pictures(case), case.batch_size, shuffle=True)
    batch = {name: tensor.to(device) for name, tensor in next(iter(loader)).items()}
    return [batch] * (len(case.files) // case.batch_size)


def main(
    *, case: dict[str, Any], network: str, epochs: int, workers: int | None
) -> list[dict[str, float]]:
    """Train and return the epoch times; without workers one batch is repeated."""
    device = torch.device("cuda", 0)
    if workers is not None:
        batches = make_loader(Case(**case), workers)
        iter(batches)  # forks the persistent workers before this process uses CUDA
    else:
        batches = repeat_batch(Case(**case), device)
    model = build_residual(network).to(device)
    optimizer = build_optimizer(model)
    clock = EpochClock()
    for _ in range(epochs):
        for batch in clock.batches(synchronized(batches)):
            moved = {name: each.to(device, non_blocking=True) for name, each in batch.items()}
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(model, moved["image"], moved["label"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in PyTorch
            optimizer.step()
    return clock.epochs
