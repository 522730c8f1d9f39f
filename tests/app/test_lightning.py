"""The loader that Lightning continues in the middle of an epoch; `make test-trainers` runs this."""

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from trainshed.worker.active_run import activate
from trainshed.worker.loop import StopTraining

if TYPE_CHECKING:
    from trainshed.lightning import ResumableLoader
    from trainshed.worker.base_run import BaseRun

pytestmark = [
    pytest.mark.trainers,
    # Lightning warns of PyTorch's old interfaces.
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None,
        reason="the trainers are not installed: make test-trainers",
    ),
]


def a_loader(rows: int = 12) -> "ResumableLoader[tuple[torch.Tensor, ...]]":
    from trainshed.lightning import ResumableLoader

    return ResumableLoader(TensorDataset(torch.arange(rows)), batch_size=2)


def numbers(batches: Iterator[tuple[torch.Tensor, ...]]) -> list[int]:
    return [int(number) for (batch,) in batches for number in batch]


def test_a_loader_continues_after_its_batches() -> None:
    first, second = a_loader(), a_loader()
    batches = iter(first)
    next(batches), next(batches)

    second.load_state_dict(first.state_dict())

    assert numbers(iter(second)) == list(range(4, 12))


def test_an_epoch_of_other_workers_is_not_continued_in_its_middle() -> None:
    first, second = a_loader(12), a_loader(8)  # as with 2 and with 3 workers of 24 rows
    next(iter(first))

    with pytest.raises(ValueError, match=r"got .* 4 batches .* expected .* 6 batches"):
        second.load_state_dict(first.state_dict())


def test_other_workers_continue_at_the_end_of_an_epoch() -> None:
    first, second = a_loader(12), a_loader(8)
    list(first)

    second.load_state_dict(first.state_dict())

    assert numbers(iter(second)) == list(range(8))


class Stream(IterableDataset[int]):
    """Rows without a number of them."""

    def __iter__(self) -> Iterator[int]:
        yield from range(4)


def test_a_dataset_without_a_length_is_refused_before_its_first_batch() -> None:
    from trainshed.lightning import ResumableLoader

    with pytest.raises(TypeError, match="got a dataset without a length"):
        next(iter(ResumableLoader(Stream(), batch_size=2)))


Loaders = Mapping[str, DataLoader[tuple[Tensor, ...]]]


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """Yield the warnings of a run that is asked to stop from its first step on."""
    warned: list[str] = []
    run = SimpleNamespace(wants_stop=lambda: True, warn=warned.append)
    activate(cast("BaseRun", run))
    yield warned
    activate(None)


def fit(loaders: Loaders, checkpoint: Path, *, resumes: bool = False) -> list[list[int]]:
    """Return the numbers of each step until the run stops; save to a file at the stop."""
    import lightning.pytorch as pl

    from trainshed.lightning import LightningReportCallback

    class Callback(LightningReportCallback):
        def __init__(self) -> None:  # Ray's needs Ray
            pl.Callback.__init__(self)

        def on_train_epoch_end(self, trainer: pl.Trainer, _: pl.LightningModule) -> None:
            trainer.save_checkpoint(checkpoint)

    class Module(pl.LightningModule):  # type: ignore[misc]  # it is not installed
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def training_step(self, batches: dict[str, list[Tensor]], _: int) -> Tensor:
            self.seen.append([int(number) for name in batches for number in batches[name][0]])
            return cast("Tensor", self.network(torch.ones(1)))

    module = Module()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[Callback()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with contextlib.suppress(StopTraining):
        trainer.fit(module, dict(loaders), ckpt_path=checkpoint if resumes else None)
    return module.seen


def test_several_loaders_continue_after_the_step_of_a_stop(
    tmp_path: Path, warned: list[str]
) -> None:
    checkpoint = tmp_path / "checkpoint"

    first = fit({"a": a_loader(6), "b": a_loader(6)}, checkpoint)
    second = fit({"a": a_loader(6), "b": a_loader(6)}, checkpoint, resumes=True)

    assert (first, second) == ([[0, 1, 0, 1]], [[2, 3, 2, 3]])
    assert warned == []


def test_several_loaders_of_which_one_has_no_state_repeat_the_epoch(
    tmp_path: Path, warned: list[str]
) -> None:
    plain = DataLoader(TensorDataset(torch.arange(6)), batch_size=2)

    fit({"a": a_loader(6), "b": plain}, tmp_path / "checkpoint")

    assert not (tmp_path / "checkpoint").exists()
    assert len(warned) == 1
    assert "repeats the epoch" in warned[0]
