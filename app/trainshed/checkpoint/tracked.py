"""The tracked objects of a training function: how they train, and the state to save."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import torch
from torch.nn.utils import clip_grad_norm_

from trainshed.checkpoint.manifest import MODEL, TrackedObject
from trainshed.checkpoint.model_file import TORCH
from trainshed.checkpoint.optimizer_state import by_name, by_number, names_of, parameters_of
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.store import STATE
from trainshed.checkpoint.wrapping import inside, load_plain_state, plain_state, sharded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@runtime_checkable
class Scheduler(Stateful, Protocol):
    """A learning rate scheduler of torch.optim."""

    def step(self) -> None:
        """Count a step of the optimizer."""
        ...


@dataclass(frozen=True)
class TrackedModel:
    """A model that trains, with the optimizer and the scheduler that are its own.

    Args:
        name: in a checkpoint, and of its file; MODEL for the one that is passed by position.
        module: wrapped or not.
        optimizer: stepped by `backward_step`.
        scheduler: stepped after each step of the optimizer.
    """

    name: str
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer | None = None
    scheduler: Scheduler | None = None

    def name_of(self, part: str) -> str:
        """Return the name of what belongs to the model, such as its `optimizer`."""
        return part if self.name == MODEL else f"{self.name}.{part}"

    def clip(self, optimizer: torch.optim.Optimizer, most: float) -> torch.Tensor:
        """Clip the norm of the gradients, and return the norm before."""
        if wrapper := sharded(self.module):
            return wrapper.clip_grad_norm_(most)
        return clip_grad_norm_(parameters_of(optimizer), most)

    def weights(self) -> Mapping[str, object]:
        """Return the model's state by the names that it has without any wrapper.

        Of a sharded model only rank 0 gets it, in a collective.
        """
        if wrapper := sharded(self.module):
            from trainshed.checkpoint.sharding import gather_weights

            return gather_weights(wrapper)
        return plain_state(self.module)

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load what `weights` returned; a collective where the model is sharded."""
        if wrapper := sharded(self.module):
            from trainshed.checkpoint.sharding import load_weights

            load_weights(wrapper, weights)
        else:
            load_plain_state(self.module, weights)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, object]:
        """Return the optimizer's state by the names of parameters; gathered as `weights` are."""
        if wrapper := sharded(self.module):
            from trainshed.checkpoint.sharding import gather_optimizer

            return gather_optimizer(wrapper, optimizer)
        return by_name(optimizer.state_dict(), names_of(optimizer, self.module))

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, object]) -> None:
        """Load what `optimizer_state` returned; a collective where the model is sharded."""
        if wrapper := sharded(self.module):
            from trainshed.checkpoint.sharding import load_optimizer

            load_optimizer(wrapper, optimizer, state)
        else:
            optimizer.load_state_dict(by_number(state, names_of(optimizer, self.module)))


class TrackedObjects:
    """The objects whose state a checkpoint holds.

    Args:
        trained: models with what trains them; the first one is what `evaluate` scores.
        others: by name; a further model, an average of weights, an optimizer or anything else.
        scaler: of the gradients of all losses.
    """

    model_file = TORCH

    def __init__(
        self,
        trained: Sequence[TrackedModel],
        others: Mapping[str, Stateful],
        scaler: torch.amp.GradScaler,
    ) -> None:
        self.trained = tuple(trained)
        self.first = self.trained[0]
        self.scaler = scaler
        # Everything except the models and their optimizers.
        self._parts: dict[str, Stateful] = {"scaler": scaler, **others}
        for each in self.trained:
            if each.scheduler is not None:
                self._parts[each.name_of("scheduler")] = each.scheduler
        # Ids of optimizers that have stepped since the last update of the scaler.
        self._stepped: set[int] = set()

    @property
    def models(self) -> list[torch.nn.Module]:
        """Return all models, those that others are among them."""
        others = (part for part in self._parts.values() if isinstance(part, torch.nn.Module))
        return [*(each.module for each in self.trained), *others]

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return all optimizers of torch; one that wraps others may be none."""
        these = (*(each.optimizer for each in self.trained), *self._parts.values())
        return [each for each in these if isinstance(each, torch.optim.Optimizer)]

    @property
    def is_sharded(self) -> bool:
        """Say whether FSDP holds a model."""
        return any(sharded(each.module) for each in self.trained)

    def trains(self, model: torch.nn.Module) -> bool:
        """Say whether an optimizer steps a model: the first one, or one that shares parameters."""
        stepped = {id(one) for each in self.optimizers for one in parameters_of(each)}
        return model is self.first.module or any(id(one) in stepped for one in model.parameters())

    def owner_of(self, optimizer: torch.optim.Optimizer) -> TrackedModel | None:
        """Return the model that an optimizer was tracked with; None for one by itself."""
        return next((each for each in self.trained if each.optimizer is optimizer), None)

    def name_of(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the name of a tracked optimizer.

        Raises:
            ValueError: for one that is not tracked.
        """
        if owner := self.owner_of(optimizer):
            return owner.name_of("optimizer")
        found = (name for name, part in self._parts.items() if part is optimizer)
        if (name := next(found, None)) is None:
            raise ValueError(
                "backward_step: got an optimizer that is not tracked; expected one of those that "
                "run.track names. Pass it to track, with its model."
            )
        return name

    def norm_name(self, optimizer: torch.optim.Optimizer) -> str:
        """Return the name by which the norm of an optimizer's gradients is shown."""
        if owner := self.owner_of(optimizer):
            return owner.name_of("gradientNorm")
        return f"{self.name_of(optimizer)}.gradientNorm"

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Accumulate the gradients of a loss.

        Args:
            loss: to run backward from.
            optimizer: the only one that gets gradients: parameters of the other tracked optimizers
                keep theirs. None: every parameter gets gradients.
        """
        if id(optimizer or self.first.optimizer) in self._stepped:
            self._update_scale()
        kept: list[tuple[torch.nn.Parameter, torch.Tensor | None]] = []
        if optimizer is not None:
            mine = {id(one) for one in parameters_of(optimizer)}
            for other in self.optimizers:
                kept += [(one, one.grad) for one in parameters_of(other) if id(one) not in mine]
        for parameter, _ in kept:
            parameter.grad = None
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        for parameter, gradient in kept:
            parameter.grad = gradient

    def scale_gradients(self, factor: float, optimizer: torch.optim.Optimizer) -> None:
        """Multiply the gradients of an optimizer; before `clip` and `step`."""
        for parameter in parameters_of(optimizer):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def clip(self, most: float, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        """Clip the norm of the gradients of an optimizer, and return the norm before."""
        self.scaler.unscale_(optimizer)
        if owner := self.owner_of(optimizer):
            return owner.clip(optimizer, most)
        return clip_grad_norm_(parameters_of(optimizer), most)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run forward and backward passes without gradient synchronization across ranks.

        Models that are not in `trained` synchronize: the function may step them in every part.
        """
        with ExitStack() as stack:
            for each in self.trained:
                if no_sync := getattr(inside(each.module), "no_sync", None):
                    stack.enter_context(no_sync())
            yield

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step an optimizer and its scheduler."""
        self.scaler.step(optimizer)
        self._stepped.add(id(optimizer))
        if len(self.optimizers) <= 1:
            self._update_scale()
        self.skip_step(optimizer)

    def skip_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Zero an optimizer's gradients and step its scheduler."""
        optimizer.zero_grad(set_to_none=True)
        owner = self.owner_of(optimizer)
        if owner and owner.scheduler is not None:
            owner.scheduler.step()

    def forget_gradients(self) -> None:
        """Zero the gradients of a step that will not be finished."""
        for each in dict.fromkeys((*self.optimizers, self.first.optimizer)):
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
        found = {
            each.name: TrackedObject(kind="model", files=(TORCH.file_of(each.name),))
            for each in self.trained
        }
        for each in self.trained:
            if each.optimizer is not None:
                name = each.name_of("optimizer")
                found[name] = TrackedObject(kind="optimizer", files=(STATE,))
        for name, part in self._parts.items():
            found[name] = TrackedObject(kind=_kind_of(part), files=(STATE,))
        return found

    def weights(self) -> dict[str, object]:
        """Return the state of each model that has a separate file, by name.

        Where one is sharded, all other ranks have to `help_gather`.
        """
        return {each.name: each.weights() for each in self.trained}

    def state(self) -> dict[str, object]:
        """Return the state of everything else; a collective where `weights` is one."""
        self._update_scale()
        state: dict[str, object] = {
            name: plain_state(part) if isinstance(part, torch.nn.Module) else part.state_dict()
            for name, part in self._parts.items()
        }
        for each in self.trained:
            if each.optimizer is not None:
                state[each.name_of("optimizer")] = each.optimizer_state(each.optimizer)
        return state

    def help_gather(self) -> None:
        """Join the gathering while rank 0 calls `weights` and `state`; for the other ranks."""
        self._update_scale()
        split = [each for each in self.trained if sharded(each.module)]
        for each in split:
            each.weights()
        for each in split:
            if each.optimizer is not None:
                each.optimizer_state(each.optimizer)

    def load(self, saved: Mapping[str, object]) -> None:
        """Load a checkpoint, as far as it has what is tracked.

        A collective where a model is sharded.
        """
        states = cast("Mapping[str, dict[str, object]]", saved)
        for each in self.trained:
            if each.name in saved:
                each.load_weights(cast("Mapping[str, torch.Tensor]", saved[each.name]))
            state = states.get(each.name_of("optimizer"))
            if each.optimizer is not None and state:
                each.load_optimizer(each.optimizer, state)
        for name, part in self._parts.items():
            if not states.get(name):
                continue
            if isinstance(part, torch.nn.Module):
                load_plain_state(part, cast("Mapping[str, torch.Tensor]", saved[name]))
            else:
                part.load_state_dict(states[name])


def _kind_of(part: Stateful) -> str:
    kinds: dict[str, type] = {
        "model": torch.nn.Module,
        "optimizer": torch.optim.Optimizer,
        "scheduler": torch.optim.lr_scheduler.LRScheduler,
        "scaler": torch.amp.GradScaler,
    }
    return next((kind for kind, made in kinds.items() if isinstance(part, made)), "other")
