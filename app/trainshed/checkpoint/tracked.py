"""The tracked objects of a training function, whose state checkpoints save."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, cast

import torch

from trainshed.checkpoint.manifest import TrackedObject
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.optimizer_state import by_name, by_number, names_of
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.store import STATE
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


# Keys of state.pt that are reserved.
RESERVED = frozenset({"model", "optimizer", "scheduler", "scaler", "random"})


def check_others(others: Mapping[str, Stateful]) -> None:
    """Refuse keywords that `track` cannot accept.

    Raises:
        ValueError: for a reserved name.
        UnsupportedWrapperError: for a model whose wrapper no checkpoint supports.
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


class TrackedObjects:
    """The objects whose state a checkpoint saves."""

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
        # Ids of optimizers that have stepped since the last update of the scaler.
        self._stepped: set[int] = set()
        self._parts: dict[str, Stateful] = {"scaler": scaler, **others}
        if scheduler is not None:
            self._parts["scheduler"] = scheduler

    @property
    def models(self) -> list[torch.nn.Module]:
        """Return all models: the first one, then the keyword arguments."""
        others = (part for part in self._parts.values() if isinstance(part, torch.nn.Module))
        return list(dict.fromkeys((self.model, *others)))

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return all optimizers of torch; one that wraps others may be none."""
        these = (self.optimizer, *self._parts.values())
        return [each for each in these if isinstance(each, torch.optim.Optimizer)]

    def trains(self, model: torch.nn.Module) -> bool:
        """Return whether an optimizer steps a model: the first one, or one with its parameters."""
        stepped = {id(one) for each in self.optimizers for one in _parameters_of(each)}
        return model is self.model or any(id(one) in stepped for one in model.parameters())

    def name_of(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the name of a tracked optimizer.

        Raises:
            ValueError: for one that is not tracked.
        """
        if optimizer is self.optimizer:
            return "optimizer"
        found = (name for name, part in self._parts.items() if part is optimizer)
        if (name := next(found, None)) is None:
            raise ValueError(
                "backward_step: got an optimizer that is not tracked; expected one of those that "
                "run.track names. Pass it to track, by a keyword if it is not the first."
            )
        return name

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Accumulate the gradients of a loss.

        Args:
            loss: to run backward from.
            optimizer: the only one that gets gradients: parameters of the other tracked optimizers
                keep theirs. None: every parameter gets gradients.
        """
        if id(optimizer or self.optimizer) in self._stepped:
            self._update_scale()
        kept: list[tuple[torch.nn.Parameter, torch.Tensor | None]] = []
        if optimizer is not None:
            mine = {id(one) for one in _parameters_of(optimizer)}
            for other in self.optimizers:
                kept += [(one, one.grad) for one in _parameters_of(other) if id(one) not in mine]
        for parameter, _ in kept:
            parameter.grad = None
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        for parameter, gradient in kept:
            parameter.grad = gradient

    def scale_gradients(self, factor: float, optimizer: torch.optim.Optimizer) -> None:
        """Multiply the gradients of an optimizer; before `clip` and `step`."""
        for parameter in _parameters_of(optimizer):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def clip(self, most: float, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        """Clip the norm of the gradients of an optimizer, and return the norm before.

        For the first optimizer these are the gradients of the first model.
        """
        self.scaler.unscale_(optimizer)
        is_first = optimizer is self.optimizer
        if self._sharded and is_first:
            return self._sharded.clip_grad_norm_(most)
        from torch.nn.utils import clip_grad_norm_

        return clip_grad_norm_(
            self.model.parameters() if is_first else _parameters_of(optimizer), most
        )

    def alone(self) -> AbstractContextManager[None]:
        """Return a context without gradient synchronization across ranks.

        Only for the first model: the function may step other optimizers in every part.
        """
        wrapper = inside(self.model)
        no_sync = getattr(wrapper, "no_sync", None)
        return no_sync() if no_sync else nullcontext()

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step an optimizer, and with the first one the scheduler."""
        self.scaler.step(optimizer)
        self._stepped.add(id(optimizer))
        if len(self.optimizers) <= 1:
            self._update_scale()
        self.skip_step(optimizer)

    def skip_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Zero an optimizer's gradients, and with the first one step the scheduler."""
        optimizer.zero_grad(set_to_none=True)
        if self.scheduler is not None and optimizer is self.optimizer:
            self.scheduler.step()

    def forget_gradients(self) -> None:
        """Zero the gradients of a step that will not be finished."""
        for each in dict.fromkeys((*self.optimizers, self.optimizer)):
            if each is not None:
                each.zero_grad(set_to_none=True)

    def _update_scale(self) -> None:
        """Update the scaler with the overflows of the steps since the last update.

        With several optimizers it waits for the next loss of one that has stepped: until then the
        others may hold gradients of this scale.
        """
        if self._stepped:
            self.scaler.update()
            self._stepped.clear()

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
        """Return the model's state, by its names without any wrapper.

        For a sharded model only rank 0 gets it, and all others must call `help_gather`.
        """
        if self._sharded:
            from trainshed.checkpoint.sharding import gather_weights

            return gather_weights(self._sharded)
        return plain_state(self.model)

    def state(self) -> dict[str, object]:
        """Return the state of everything but the model; for a sharded one as in `weights`."""
        self._update_scale()
        state: dict[str, object] = {
            name: plain_state(part) if isinstance(part, torch.nn.Module) else part.state_dict()
            for name, part in self._parts.items()
        }
        if self.optimizer is not None:
            state["optimizer"] = self._optimizer_state(self.optimizer)
        return state

    def help_gather(self) -> None:
        """Join the gathering while rank 0 calls `weights` and `state`; for the other ranks."""
        self._update_scale()
        if self._sharded:
            self.weights()
            if self.optimizer is not None:
                self._optimizer_state(self.optimizer)

    def load(self, model: object, state: Mapping[str, object]) -> None:
        """Load a checkpoint; a collective if the model is sharded."""
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


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _kind_of(part: Stateful) -> str:
    if isinstance(part, torch.nn.Module):
        return "model"
    return "optimizer" if isinstance(part, torch.optim.Optimizer) else "other"
