"""Trains on images on a GPU, from DataLoader or by repeating one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils.data import DataLoader

from benchmarks.plain.case import read_cases
from benchmarks.plain.clock import EpochClock
from benchmarks.plain.program import start
from benchmarks.plain.residual import build_optimizer, build_residual, loss_of, until_done
from benchmarks.plain.torch_loading import Pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.plain.case import Case

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
    """Return one batch of any labels on a device, as many times as an epoch has steps."""
    found = DataLoader(Pictures(case), case.batch_size, shuffle=True)
    batch = {name: tensor.to(device) for name, tensor in next(iter(found)).items()}
    return [batch] * (len(case.files) // case.batch_size)


def main(*, listed: str, out: str, network: str, epochs: int, workers: int | None) -> None:
    """Train and write the times of the epochs."""
    (case,) = read_cases(listed)
    device = torch.device("cuda", 0)
    if workers is not None:
        batches = make_loader(case, workers)
        iter(batches)  # its workers are forked before the process talks to its GPU, and stay
    else:
        batches = repeat_batch(case, device)
    model = build_residual(network).to(device)
    optimizer = build_optimizer(model)
    clock = EpochClock()
    for _ in range(epochs):
        for batch in clock.batches(until_done(batches)):
            there = {name: each.to(device, non_blocking=True) for name, each in batch.items()}
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(model, there["image"], there["label"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
    clock.write(out)


if __name__ == "__main__":
    start(main)
