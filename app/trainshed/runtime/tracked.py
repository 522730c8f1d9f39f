"""What a training function names to survive: the objects whose state a checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from trainshed.runtime.state import Stateful, unwrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch


class Scheduler(Stateful, Protocol):
    """A learning rate scheduler of torch.optim."""

    def step(self) -> None:
        """Count a step of the optimizer."""
        ...


class Tracked:
    """The objects whose state a checkpoint holds."""

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
        self._parts: dict[str, Stateful] = {"scaler": scaler, **others}
        if optimizer is not None:
            self._parts["optimizer"] = optimizer
        if scheduler is not None:
            self._parts["scheduler"] = scheduler

    def state(self) -> dict[str, object]:
        """Return the state of everything but the model."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load(self, model: Mapping[str, torch.Tensor], state: Mapping[str, object]) -> None:
        """Take a checkpoint over."""
        unwrapped(self.model).load_state_dict(model)
        for name, part in self._parts.items():
            saved = state.get(name)
            if saved:
                part.load_state_dict(cast("dict[str, object]", saved))
