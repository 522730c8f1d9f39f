"""Checkpoints for tests, and a disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import torch

from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.manifest import MODEL, Manifest, Position
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.store import Content
from trainshed.checkpoint.track_arguments import Trained, read_arguments
from trainshed.checkpoint.tracked import Scheduler, TrackedObjects
from trainshed.data.sampler.description import Described
from trainshed.data.sampler.permutation import ORDER
from trainshed.storage.folder import Folder

Place = TypeVar("Place", bound=Folder)


def make_manifest(step: int = 10, epoch: int = 1, loss: float = 0.5) -> Manifest:
    """The manifest to be of a checkpoint that two workers write."""
    return Manifest(
        order=ORDER,
        position=Position(epoch=epoch, step_in_epoch=2, step=step),
        workers=2,
        spec_hash="abc",
        attempt=1,
        metrics={"valid.loss": loss},
    )


def write_checkpoint(
    parent: Place,
    step: int = 10,
    epoch: int = 1,
    size: int = 1000,
    data: dict[str, Described] | None = None,
) -> Place:
    """Write a checkpoint whose weights are its step; return its folder, of the parent's kind."""
    model = {"weight": torch.full((size,), float(step))}
    state = {"optimizer": {"step": step}}
    manifest = make_manifest(step, epoch).model_copy(update={"data": data})
    written = checkpoint.write(parent, hold(model, state), manifest, trust_objects=False)
    return cast("Place", written)


def hold(model: object, state: object) -> Content:
    """Return what a checkpoint of torch's holds."""
    return Content(TORCH, {MODEL: model}, state)


def make_tracked(
    model: torch.nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: Scheduler | None = None,
    scaler: torch.amp.GradScaler | None = None,
    **named: Stateful | Trained,
) -> TrackedObjects:
    """Return what `run.track` makes of such arguments."""
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
    return TrackedObjects(*read_arguments(model, optimizer, scheduler, named), scaler)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Refuse this process larger files, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Bomb:
    """Cannot be written."""

    def __reduce__(self) -> str:
        """Refuse."""
        raise ArithmeticError("no")
