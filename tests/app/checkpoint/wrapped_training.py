"""Runs on several ranks whose model is wrapped in one way or another, without Ray."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils, set_train_fn_utils
from ray.train.v2.api.context import LocalTrainContext
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import trainshed
from tests.app.builders_rows import write_rows
from tests.app.failing_runs import make_data, make_spec
from tests.builders import make_run
from trainshed import frameworks
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.coordinator.actor import Coordinator
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.worker.attempt_config import AttemptConfig
from trainshed.worker.process import Worker

# The last of 36 rows is one rank's alone: in an evaluation it calls the model once more.
ROWS, BATCH_SIZE, EPOCHS = 36, 7, 3

compiled = cast("Callable[[nn.Module], nn.Module]", partial(torch.compile, backend="eager"))


def fsdp(model: nn.Module) -> nn.Module:
    """Shard the whole model, and its inner part by itself."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        device_id=torch.device("cpu"),
    )


def compiled_in_place(model: nn.Module) -> nn.Module:
    """Compile it by its own method, which wraps nothing."""
    model.compile(backend="eager")
    return model


def with_compiled_part(model: nn.Module) -> nn.Module:
    """Compile its inner part."""
    model.inner = compiled(cast("nn.Module", model.inner))
    return model


DDP = DistributedDataParallel
WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "DDP": DDP,
    "compile(DDP)": lambda model: compiled(DDP(model)),
    "DDP(compile)": lambda model: DDP(compiled(model)),
    "DDP, a part compiled": lambda model: DDP(with_compiled_part(model)),
    "DDP.compile()": lambda model: compiled_in_place(DDP(model)),
    "FSDP": fsdp,
    "compile(FSDP)": lambda model: compiled(fsdp(model)),
}


class Network(nn.Module):
    """Has what a rank by itself would get wrong: statistics of its rows, and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.inner = nn.Sequential(nn.Linear(4, 7), nn.Dropout(0.2), nn.ReLU())
        self.last = nn.Linear(7, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a number a row."""
        y: Tensor = self.last(self.inner(self.norm(x))).squeeze(1)
        return y


class BrokenError(Exception):
    """The end of a run that is not over."""


def train(config: dict[str, object]) -> None:
    """Train a network that is wrapped as `wrapper` says; break before a step where told to."""
    torch.manual_seed(3)
    run = trainshed.current()
    model = WRAPPERS[str(config["wrapper"])](Network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    run.track(model, optimizer, scheduler)

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": (module(batch["x"]) - batch["y"]) ** 2}

    for _ in run.epochs():
        for batch in run.batches("train"):
            if run.step == config["broken_at"]:
                raise BrokenError
            run.backward_step(F.mse_loss(model(batch["x"]), batch["y"]))
        run.evaluate(score, "train")


@dataclass(frozen=True)
class Attempts:
    """Attempts of a run, one after the other: each but the last is broken on the way.

    Args:
        name: of the folder that they share.
        wrappers: of each one's model.
    """

    name: str
    wrappers: Sequence[str]


def with_spec(job: AttemptConfig, **fields: object) -> AttemptConfig:
    """Return a job whose spec has other values."""
    return replace(job, spec=job.spec.model_copy(update=fields))


def make_jobs(home: Path, world_size: int) -> AttemptConfig:
    """Write rows, and return a job to train on them."""
    write_rows(home / "rows", ROWS)
    spec = make_spec(
        train=f"{__name__}:train",
        config={},
        epochs=EPOCHS,
        batchSize=BATCH_SIZE,
        reproducible=True,
        workers={"count": world_size, "resources": {"cpu": "500m"}},
        data=make_data(),
    )
    prepared = prepare(make_run(**spec), RunLocation(Disk(home)))
    launch = Launch(prepared, RunLocation(Disk(home)), None, [], started=0.0)
    return make_job(launch, prepared.folder.claim(prepared.spec_hash, False))


def run_all(
    job: AttemptConfig,
    runs: Sequence[Attempts],
    rank: int,
    config: Mapping[str, object] | None = None,
) -> list[str]:
    """Make all attempts of all runs; return the errors that were not meant.

    config: more of what the function is told.
    """
    errors = []
    for attempts in runs:
        here = replace(job, folder=job.folder / attempts.name)
        for number, wrapper in enumerate(attempts.wrappers, 1):
            last = number == len(attempts.wrappers)
            # A checkpoint is written after each second step, and is what the next goes on from.
            told = {"wrapper": wrapper, "broken_at": -1 if last else 1 + 2 * number}
            error = _attempt(here, rank, {**told, **(config or {})})
            if error != (None if last else "BrokenError"):
                errors.append(f"{attempts}, {wrapper}: {error}")
    return errors


def _attempt(job: AttemptConfig, rank: int, config: dict[str, object]) -> str | None:
    assert job.folder.path
    job.folder.path.mkdir(parents=True, exist_ok=True)
    set_train_fn_utils(Functions(job.folder.path, rank))
    dist.barrier()
    coordinator = Coordinator(0.0)
    try:
        Worker(job, coordinator, frameworks.named("torch"))(config)
    except Exception as error:
        return str(error)
    finally:
        set_train_fn_utils(None)
    return None


class Context(LocalTrainContext):
    """Ray Train's context of a rank, with a storage."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__("ray", dist.get_world_size(), rank)
        self._storage = StorageContext(folder, "ray")

    def get_storage(self) -> StorageContext:
        """Return where checkpoints lie."""
        return self._storage


class Functions(LocalTrainFnUtils):
    """Ray Train's functions for a rank."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__("ray")
        self._context = Context(folder, rank)
