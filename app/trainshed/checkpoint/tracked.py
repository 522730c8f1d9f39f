"""What a training function names to survive: the objects whose state a checkpoint holds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, cast

import torch

from trainshed.checkpoint.files import STATE
from trainshed.checkpoint.manifest import TrackedObject
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.optimizer_state import by_name, by_number, names_of
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.wrapping import (
    UnsupportedWrapperError,
    check_wrapping,
    inside,
    load_plain_state,
    plain_state,
    sharded,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class Scheduler(Stateful, Protocol):
    """A learning rate scheduler of torch.optim."""

    def step(self) -> None:
        """Count a step of the optimizer."""
        ...


# Keys of state.pt that are not the user's to give.
RESERVED = frozenset({"model", "optimizer", "scheduler", "scaler", "random"})


def check_others(others: Mapping[str, Stateful]) -> None:
    """Refuse what keywords of `track` cannot name.

    Raises:
        ValueError: for a name under which a checkpoint holds something else.
        UnsupportedWrapperError: for a model that no checkpoint can hold as it is wrapped.
    """
    if taken := sorted(RESERVED.intersection(others)):
        raise ValueError(
            f"track: got the keyword {taken[0]}; expected another name, because a checkpoint holds "
            "the run's own state under it. Rename the keyword."
        )
    for name, part in others.items():
        if isinstance(part, torch.nn.Module):
            check_wrapping(part)
            if sharded(part):
                raise UnsupportedWrapperError(
                    f"track: got a model in FSDP for the keyword {name}; expected one in DDP, or "
                    "as it is. Only the first model may be in FSDP."
                )


class Tracked:
    """The objects whose state a checkpoint holds."""

    model_file = TORCH

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        scheduler: Scheduler | None,
        others: Mapping[str, Stateful],
        scaler: torch.amp.GradScaler,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scaler = scaler
        self._sharded = sharded(model)
        self._parts: dict[str, Stateful] = {"scaler": scaler, **others}
        if scheduler is not None:
            self._parts["scheduler"] = scheduler

    @property
    def models(self) -> list[torch.nn.Module]:
        """Return all models: the first one, then those that keywords name."""
        others = (part for part in self._parts.values() if isinstance(part, torch.nn.Module))
        return list(dict.fromkeys((self.model, *others)))

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return all optimizers of torch; one around others may be none."""
        these = (self.optimizer, *self._parts.values())
        return [each for each in these if isinstance(each, torch.optim.Optimizer)]

    def trains(self, model: torch.nn.Module) -> bool:
        """Say whether an optimizer steps a model: the first one, or one that shares parameters."""
        groups = (group for each in self.optimizers for group in each.param_groups)
        stepped = {id(one) for group in groups for one in group["params"]}
        return model is self.model or any(id(one) in stepped for one in model.parameters())

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a loss to those that are there."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def scale_gradients(self, factor: float) -> None:
        """Multiply the gradients that the optimizer steps by; before `clip` and `step`."""
        assert self.optimizer is not None
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def clip(self, most: float) -> torch.Tensor:
        """Scale the gradients of the model so that their norm is at most so much; return it."""
        assert self.optimizer is not None
        self.scaler.unscale_(self.optimizer)
        if self._sharded:
            return self._sharded.clip_grad_norm_(most)
        from torch.nn.utils import clip_grad_norm_

        return clip_grad_norm_(self.model.parameters(), most)

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which a forward and backward pass leave out the other ranks.

        Of the first model alone: the function may step the optimizers of others in every part.
        """
        wrapper = inside(self.model)
        no_sync = getattr(wrapper, "no_sync", None)
        return no_sync() if no_sync else nullcontext()

    def step(self) -> None:
        """Make one step of the optimizer, which is there, and of the scheduler."""
        assert self.optimizer is not None
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skip_step()

    def skip_step(self) -> None:
        """Forget the gradients, and count a step of the scheduler."""
        assert self.optimizer is not None
        self.optimizer.zero_grad(set_to_none=True)
        if self.scheduler is not None:
            self.scheduler.step()

    def objects(self) -> dict[str, TrackedObject]:
        """Return the kind and the file of every object, by name."""
        found = {"model": TrackedObject(kind="model", files=(TORCH.name,))}
        if self.optimizer is not None:
            found["optimizer"] = TrackedObject(kind="optimizer", files=(STATE,))
        for name, part in self._parts.items():
            kind = name if name in RESERVED else _kind_of(part)
            found[name] = TrackedObject(kind=kind, files=(STATE,))
        return found

    def weights(self) -> Mapping[str, object]:
        """Return the model's state, by the names that it has without any wrapper.

        Of a sharded model only rank 0 gets it, and all others have to `help_gather`.
        """
        if self._sharded:
            from trainshed.checkpoint.sharding import gather_weights

            return gather_weights(self._sharded)
        return plain_state(self.model)

    def state(self) -> dict[str, object]:
        """Return the state of everything but the model; where that is sharded as `weights` does."""
        state: dict[str, object] = {
            name: plain_state(part) if isinstance(part, torch.nn.Module) else part.state_dict()
            for name, part in self._parts.items()
        }
        if self.optimizer is not None:
            state["optimizer"] = self._optimizer_state(self.optimizer)
        return state

    def help_gather(self) -> None:
        """Take part where rank 0 calls `weights` and `state`, on each other rank."""
        if self._sharded:
            self.weights()
            if self.optimizer is not None:
                self._optimizer_state(self.optimizer)

    def load(self, model: object, state: Mapping[str, object]) -> None:
        """Take a checkpoint over; a collective where the model is sharded."""
        weights = cast("Mapping[str, torch.Tensor]", model)
        if self._sharded:
            from trainshed.checkpoint.sharding import load_weights

            load_weights(self._sharded, weights)
        else:
            load_plain_state(self.model, weights)
        saved = cast("Mapping[str, dict[str, object]]", state)
        if self.optimizer is not None and saved.get("optimizer"):
            self._load_optimizer(self.optimizer, saved["optimizer"])
        for name, part in self._parts.items():
            if not saved.get(name):
                continue
            if isinstance(part, torch.nn.Module):
                load_plain_state(part, cast("Mapping[str, torch.Tensor]", saved[name]))
            else:
                part.load_state_dict(saved[name])

    def _optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, object]:
        if self._sharded:
            from trainshed.checkpoint.sharding import gather_optimizer

            return gather_optimizer(self._sharded, optimizer)
        return by_name(optimizer.state_dict(), names_of(optimizer, self.model))

    def _load_optimizer(
        self, optimizer: torch.optim.Optimizer, saved: Mapping[str, object]
    ) -> None:
        if self._sharded:
            from trainshed.checkpoint.sharding import load_optimizer

            load_optimizer(self._sharded, optimizer, saved)
        else:
            optimizer.load_state_dict(by_number(saved, names_of(optimizer, self.model)))


def _kind_of(part: Stateful) -> str:
    if isinstance(part, torch.nn.Module):
        return "model"
    return "optimizer" if isinstance(part, torch.optim.Optimizer) else "other"
