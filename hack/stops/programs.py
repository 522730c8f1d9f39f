"""Training functions as users write them; each is a program of hack.stops."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import ray.train
import ray.train.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import trainshed
from hack.stops.draw import EPOCHS, STEPS
from hack.stops.marks import begin_batches, count_step, hold, keep_weights, read_plan

WIDTH = 4


def make_network() -> nn.Module:
    """Return a network that draws random numbers and whose statistics differ between ranks."""
    return nn.Sequential(
        nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
    )


def error(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean squared error."""
    return F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])


def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the loss of each row."""
    return {"loss": (module(batch["x"]).squeeze(1) - batch["y"]) ** 2}


# ------------------------------------------------------------- loops over trainshed.current()


def own_loop(config: Mapping[str, object]) -> None:
    """Train with a scheduler, and evaluate after each epoch; may be compiled."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(make_network())
    if config.get("compile"):
        # A backend that needs no compiler.
        model = cast("nn.Module", torch.compile(model, backend="aot_eager"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.track(model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99))
    for _ in run.epochs():
        for batch in run.batches("train"):
            loss = error(model, batch)
            run.backward_step(loss)
            run.log(loss=loss)
        run.evaluate(score)


def early_return(config: Mapping[str, object]) -> None:  # noqa: ARG001 - every function has it
    """Return in the middle of an epoch, as with a budget of steps."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(make_network())
    run.track(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    last = STEPS + 2  # after the ends of all epochs in which runs are stopped
    if run.step == last:  # an attempt was stopped between the last step and the return
        return
    for _ in run.epochs():
        for batch in run.batches("train"):
            step = run.step + 1
            run.backward_step(error(model, batch))
            if step == last:
                return


def moving_average(config: Mapping[str, object]) -> None:  # noqa: ARG001
    """Keep an average of the weights beside the model."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(make_network())
    average = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
    run.track(model, torch.optim.AdamW(model.parameters(), lr=0.01), average=average)
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(error(model, batch))
            average.update_parameters(model)
        run.evaluate(score)


def two_models(config: Mapping[str, object]) -> None:  # noqa: ARG001
    """Train a generator and a discriminator, each with its own optimizer."""
    run = trainshed.current()
    maker = ray.train.torch.prepare_model(nn.Linear(2, WIDTH))
    critic = ray.train.torch.prepare_model(nn.Linear(WIDTH, 1))
    by_maker = torch.optim.AdamW(maker.parameters(), lr=0.01)
    by_critic = torch.optim.AdamW(critic.parameters(), lr=0.01)
    run.track(maker=(maker, by_maker), critic=(critic, by_critic))
    for _ in run.epochs():
        for batch in run.batches("train"):
            made = maker(torch.randn(len(batch["x"]), 2))
            loss = critic(made.detach()).mean() - critic(batch["x"]).mean()
            run.backward_step(loss, optimizer=by_critic)
            run.backward_step(-critic(made).mean(), optimizer=by_maker)


def zipped(config: Mapping[str, object]) -> None:  # noqa: ARG001
    """Train on two datasets side by side."""
    run = trainshed.current()
    model = ray.train.torch.prepare_model(make_network())
    run.track(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    for _ in run.epochs():
        for batch, other in zip(run.batches("train"), run.batches("other"), strict=False):
            run.backward_step(error(model, batch) + error(model, other))


def boost(config: Mapping[str, object]) -> None:  # noqa: ARG001
    """Grow trees that draw samples, with a score of the function's own."""
    import xgboost

    import trainshed.boosting
    from trainshed.boosting.matrix_columns import MatrixColumns

    run = trainshed.boosting.current()
    rows = run.matrix("train", MatrixColumns("y", ("x",)))

    def half_error(predicted: np.ndarray, matrix: xgboost.DMatrix) -> tuple[str, float]:
        hold("evaluation", when=run.step + 1 >= read_plan().at)
        return "halfError", float(np.abs(predicted - matrix.get_label()).mean() / 2)

    params = {"objective": "reg:squarederror", "subsample": 0.5, "colsample_bynode": 0.5}
    run.boost(params, rows, STEPS, scored={"train": rows}, metric=half_error)


# --------------------------------------------------- loops that know nothing of Trainshed


class Rows(Dataset[dict[str, Tensor]]):
    """Rows in memory, as a program has them that reads them itself."""

    def __init__(self, count: int) -> None:
        self._x = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        x = self._x[row]
        return {"x": x, "y": x.sum(), "row": torch.tensor(row)}


def own_loader(config: Mapping[str, object]) -> None:
    """Train on a DataLoader of the function's own, prepared by Ray Train."""
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(Rows(int(str(config["rows"]))), batch_size=6, shuffle=True)
    )

    def batches(epoch: int) -> Iterator[dict[str, Tensor]]:
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield from loader

    learn(batches)


def own_shard(config: Mapping[str, object]) -> None:  # noqa: ARG001
    """Train on Ray Data's iterator."""
    shard = ray.train.get_dataset_shard("train")
    learn(lambda _: shard.iter_torch_batches(batch_size=6))


def learn(
    batches: Callable[[int], Iterator[dict[str, Tensor]]],
    prepare: Callable[[nn.Module], nn.Module] = ray.train.torch.prepare_model,
    backward: Callable[[Tensor], None] = Tensor.backward,
    wants_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Train as a function of Ray Train does, and save a checkpoint after each epoch.

    Args:
        wants_stop: asked after each step whether to save here and stop.
    """
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    model = prepare(nn.Linear(WIDTH, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    start, done, step = load(model, optimizer)
    begun = step
    for epoch in range(start, EPOCHS):
        for batch in islice(batches(epoch), done, None):
            if step == begun:
                begin_batches()
            optimizer.zero_grad()
            backward(error(model, batch))
            optimizer.step()
            step, done = step + 1, done + 1
            count_step(rank, epoch, step, {"train": batch["row"].tolist()})
            if wants_stop():
                save(model, optimizer, epoch, done, step)
        done = 0
        hold("epoch-end", epoch=epoch)
        save(model, optimizer, epoch + 1, done, step)
    if rank == 0:
        keep_weights(model.state_dict(), None)


def save(
    model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, done: int, step: int
) -> None:
    """Report a checkpoint of a step.

    Args:
        epoch: which goes on.
        done: batches of it.
    """
    ended = epoch if done else epoch - 1
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            hold("checkpoint", epoch=ended)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"at": (epoch, done, step)}, Path(folder, "state.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        hold("report", epoch=ended)
        ray.train.report({"loss": 1 / step}, checkpoint=checkpoint)


def load(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    """Load the last checkpoint of `learn`; return its epoch, the batches of it, and the step."""
    with open_checkpoint() as folder:
        if folder is None:
            return 0, 0, 0
        state = torch.load(folder / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    epoch, done, step = state["at"]
    return epoch, done, step


@contextmanager
def open_checkpoint() -> Iterator[Path | None]:
    """Yield the folder of Ray Train's last checkpoint, if there is one."""
    checkpoint = ray.train.get_checkpoint()
    with checkpoint.as_directory() if checkpoint else nullcontext() as folder:
        yield folder and Path(folder)
