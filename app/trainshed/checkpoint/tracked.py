"""What a training function names to survive: the objects whose state a checkpoint holds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, cast

from trainshed.checkpoint.files import STATE
from trainshed.checkpoint.manifest import TrackedObject
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.optimizer_state import by_name, by_number, names_of
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.wrapping import inside, plain_name, sharded, unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractContextManager

    import torch


class Scheduler(Stateful, Protocol):
    """A learning rate scheduler of torch.optim."""

    def step(self) -> None:
        """Count a step of the optimizer."""
        ...


# Keys of state.pt that are not the user's to give.
RESERVED = frozenset({"model", "optimizer", "scheduler", "scaler", "random"})


def check_names(others: Collection[str]) -> None:
    """Refuse a name under which a checkpoint holds something else.

    Raises:
        ValueError: naming it.
    """
    if taken := sorted(RESERVED.intersection(others)):
        raise ValueError(
            f"track: got the keyword {taken[0]}; expected another name, because a checkpoint holds "
            "the run's own state under it. Rename the keyword."
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
        """Return a context in which a forward and backward pass leave out the other ranks."""
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
        kinds = {"scaler": "scaler", "scheduler": "scheduler"}
        found = {"model": TrackedObject(kind="model", files=(TORCH.name,))}
        if self.optimizer is not None:
            found["optimizer"] = TrackedObject(kind="optimizer", files=(STATE,))
        for name in self._parts:
            found[name] = TrackedObject(kind=kinds.get(name, "other"), files=(STATE,))
        return found

    def weights(self) -> Mapping[str, object]:
        """Return the model's state, by the names that it has without any wrapper.

        Of a sharded model only rank 0 gets it, and all others have to `help_gather`.
        """
        if self._sharded:
            from trainshed.checkpoint.sharding import gather_weights

            return gather_weights(self._sharded)
        state = unwrapped(self.model).state_dict()
        return {plain_name(name): value for name, value in state.items()}

    def state(self) -> dict[str, object]:
        """Return the state of everything but the model; where that is sharded as `weights` does."""
        state: dict[str, object] = {name: part.state_dict() for name, part in self._parts.items()}
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
            module = unwrapped(self.model)
            # What is compiled may have been no more so when the checkpoint was written, or not yet;
            # earlier releases kept the names that torch.compile gives.
            own = {plain_name(name): name for name in module.state_dict()}
            names = {name: own.get(plain_name(name), name) for name in weights}
            module.load_state_dict({names[name]: value for name, value in weights.items()})
        saved = cast("Mapping[str, dict[str, object]]", state)
        if self.optimizer is not None and saved.get("optimizer"):
            self._load_optimizer(self.optimizer, saved["optimizer"])
        for name, part in self._parts.items():
            if saved.get(name):
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
