"""A run that lives in one process, for tests of training functions only.

Stands in for what `trainshed.current()` gives a worker: batches from memory, steps
without weighting, evaluation of one rank. Ray's own local mode runs the function.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
import ray.train
import torch
from numpy.typing import NDArray
from ray.train.torch import TorchTrainer
from torch import Tensor, nn

import trainshed

Tensors = dict[str, Tensor]


class FakeRun:
    """One rank, everything in memory."""

    rank = 0
    world_size = 1
    device = torch.device("cpu")

    def __init__(self, datasets: dict[str, Tensors], epochs: int, batch_size: int) -> None:
        self.datasets = datasets
        self.step = 0
        self.metrics: dict[str, float] = {}
        self.losses: list[float] = []
        self.learning_rates: list[float] = []
        self.shown: dict[str, tuple[NDArray[np.uint8], list[str], list[bool]]] = {}
        self.confusions: dict[str, NDArray[np.int64]] = {}
        self._epochs = epochs
        self._batch_size = batch_size

    def describe_model(self, **what: object) -> None:
        """Take it."""

    def track(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        self.model, self._optimizer, self._scheduler = model, optimizer, scheduler

    def epochs(self) -> Iterator[int]:
        yield from range(self._epochs)

    def batches(self, name: str) -> Iterator[Tensors]:
        columns = self.datasets[name]
        rows = len(next(iter(columns.values())))
        for start in range(0, rows, self._batch_size):
            yield {key: values[start : start + self._batch_size] for key, values in columns.items()}

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def backward_step(self, loss: Tensor) -> None:
        self.learning_rates.append(self._optimizer.param_groups[0]["lr"])
        torch.autograd.backward(loss)
        self._optimizer.step()
        self._scheduler.step()
        self._optimizer.zero_grad()
        self.step += 1

    def log(self, **scalars: Tensor) -> None:
        self.losses.append(scalars["loss"].item())

    def evaluate(
        self, score: Callable[[nn.Module, Tensors], dict[str, Tensor]]
    ) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad():
            scores = [score(self.model, batch) for batch in self.batches("valid")]
        self.model.train()
        self.metrics = {
            f"valid.{name}": torch.cat([part[name] for part in scores]).mean().item()
            for name in scores[0]
        }
        return self.metrics

    def sum_over_ranks(self, numbers: NDArray[np.int64]) -> None:
        """Leave them: there is one rank."""

    def show_confusion(self, name: str, counts: NDArray[np.int64]) -> None:
        self.confusions[name] = counts

    def show(
        self, name: str, images: NDArray[np.uint8], captions: Sequence[str], good: Sequence[bool]
    ) -> None:
        self.shown[name] = (images, list(captions), list(good))


def run_program(  # what a run consists of
    monkeypatch: pytest.MonkeyPatch,
    train: Callable[[dict[str, object]], None],
    config: dict[str, object],
    datasets: dict[str, Tensors],
    *,
    epochs: int = 1,
    batch_size: int = 32,
) -> FakeRun:
    """Run a training function to its end and return what it did."""
    fake = FakeRun(datasets, epochs, batch_size)
    monkeypatch.setattr(trainshed, "current", lambda: fake)
    torch.manual_seed(0)
    # No workers: Ray Train calls the function in this process, without a cluster.
    scaling = ray.train.ScalingConfig(num_workers=0)
    TorchTrainer(train, train_loop_config=config, scaling_config=scaling).fit()
    return fake
