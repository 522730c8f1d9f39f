"""The upper bound: a plain PyTorch loop over tensors in memory."""

from collections.abc import Iterator

import torch

from benchmarks.plain.clock import EpochClock
from benchmarks.plain.files import read_rows
from benchmarks.plain.model import build_mlp, build_optimizer, train_step


def shuffled(
    x: torch.Tensor, y: torch.Tensor, batch_size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the full batches of an epoch in a random order."""
    for index in torch.split(torch.randperm(len(y)), batch_size):
        if len(index) == batch_size:
            yield x[index], y[index]


def main(*, data: str, hidden: list[int], batch_size: int, epochs: int) -> list[dict[str, float]]:
    """Train and return the epoch times."""
    torch.manual_seed(0)
    x, y = read_rows(data)
    model = build_mlp(x.shape[1], hidden, 10)
    optimizer = build_optimizer(model)
    clock = EpochClock()
    for _ in range(epochs):
        for features, labels in clock.batches(shuffled(x, y, batch_size)):
            train_step(model, optimizer, features, labels)
    return clock.epochs
