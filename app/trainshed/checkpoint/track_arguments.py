"""What a training function passes to `run.track`: sorted, or refused with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

import torch

from trainshed.checkpoint.manifest import MODEL
from trainshed.checkpoint.optimizer_state import parameters_of
from trainshed.checkpoint.state import Stateful
from trainshed.checkpoint.tracked import Scheduler, TrackedModel
from trainshed.checkpoint.wrapping import (
    UnsupportedWrapperError,
    check_wrapping,
    sharded,
    unwrapped,
)

# A model with what trains it.
Trained: TypeAlias = (
    tuple[torch.nn.Module, torch.optim.Optimizer]
    | tuple[torch.nn.Module, torch.optim.Optimizer, Scheduler | None]
)
Named: TypeAlias = Mapping[str, Stateful | Trained]

# Keys of state.pt that are not the user's to give.
RESERVED = frozenset({"model", "optimizer", "scheduler", "scaler", "random"})
_EXAMPLE = "track(generator=(model, optimizer))"


def read_arguments(
    model: torch.nn.Module | None,
    optimizer: torch.optim.Optimizer | None,
    scheduler: Scheduler | None,
    named: Named,
) -> tuple[list[TrackedModel], dict[str, Stateful]]:
    """Return the models that have a file of their own, and all other objects by name.

    Raises:
        ValueError: for a name that a checkpoint uses itself, for what cannot be tracked, for an
            object with two names, and for an optimizer of other parameters.
        UnsupportedWrapperError: for a model that no checkpoint can hold as it is wrapped.
    """
    trained: list[TrackedModel] = []
    others: dict[str, Stateful] = {}
    if model is not None:
        if not isinstance(model, torch.nn.Module):
            raise ValueError(
                f"track: got {_type_of(model)} for the model; expected a torch.nn.Module. Pass a "
                f"model with its optimizer under a name of its own, such as {_EXAMPLE}."
            )
        trained.append(TrackedModel(MODEL, model, optimizer, scheduler))
    elif optimizer is not None or scheduler is not None:
        raise ValueError(
            "track: got an optimizer or a scheduler without a model; expected its model too. Pass "
            f"them together, such as {_EXAMPLE}."
        )
    for name, value in named.items():
        if isinstance(value, tuple):
            trained.append(_read_trained(name, value))
        else:
            others[name] = value
    if not trained:
        raise ValueError(
            "track: got no model that trains; expected at least one. Pass it first, or with its "
            f"optimizer, such as {_EXAMPLE}."
        )
    _check_others(others, {each.name for each in trained})
    for each in trained:
        check_wrapping(each.module)
    _check_once(trained, others)
    _check_optimizers(trained, others)
    return trained, others


def _read_trained(name: str, value: tuple[object, ...]) -> TrackedModel:
    if name in RESERVED or name == "state" or not name.isidentifier():
        raise ValueError(
            f"track: got the keyword {name} for a model; expected another name, because its "
            "weights are written to a file of that name. Rename the keyword."
        )
    if not _is_trained(value):
        raise ValueError(
            f"track: got {_type_of(value)} for {name}; expected (model, optimizer) or (model, "
            "optimizer, scheduler). Pass any other object under a keyword of its own."
        )
    return TrackedModel(name, *value)


def _is_trained(value: tuple[object, ...]) -> TypeGuard[Trained]:
    if len(value) not in {2, 3}:
        return False
    model, optimizer, *rest = value
    return (
        isinstance(model, torch.nn.Module)
        and isinstance(optimizer, torch.optim.Optimizer)
        and all(each is None or _is_scheduler(each) for each in rest)
    )


def _is_scheduler(value: object) -> bool:
    # An optimizer has the same methods.
    return isinstance(value, Scheduler) and not isinstance(value, torch.optim.Optimizer)


def _check_others(others: Mapping[str, object], models: set[str]) -> None:
    for name, part in others.items():
        if name in RESERVED or name.partition(".")[0] in models:
            raise ValueError(
                f"track: got the keyword {name}; expected another name, because a checkpoint "
                "holds the run's own state under it. Rename the keyword."
            )
        if not isinstance(part, Stateful):
            raise ValueError(
                f"track: got {_type_of(part)} for {name}; expected an object with state_dict and "
                "load_state_dict, or (model, optimizer). Leave out what has no state."
            )
        if isinstance(part, torch.nn.Module):
            check_wrapping(part)
            if sharded(part):
                raise UnsupportedWrapperError(
                    f"track: got a model in FSDP for the keyword {name}; expected one in DDP, or "
                    f"as it is. Pass a model in FSDP with its optimizer, such as {_EXAMPLE}."
                )


def _check_once(trained: list[TrackedModel], others: Mapping[str, Stateful]) -> None:
    """Refuse an object that has two names: loading it for one would overwrite the other's."""
    parts: list[tuple[str, object]] = []
    for each in trained:
        parts += [
            (each.name, each.module),
            (each.name_of("optimizer"), each.optimizer),
            (each.name_of("scheduler"), each.scheduler),
        ]
    names: dict[int, str] = {}
    for name, part in [*parts, *others.items()]:
        key = id(unwrapped(part) if isinstance(part, torch.nn.Module) else part)
        if part is not None and (known := names.setdefault(key, name)) != name:
            raise ValueError(
                f"track: got the same object for {known} and {name}; expected each object once. "
                "Leave one of the names out."
            )


def _check_optimizers(trained: list[TrackedModel], others: Mapping[str, Stateful]) -> None:
    """Refuse an optimizer that steps no parameter of its model, or of any model."""
    tracked = [each.module for each in trained]
    tracked += [part for part in others.values() if isinstance(part, torch.nn.Module)]
    for each in trained:
        models = tracked if each.name == MODEL else [each.module]
        _check_steps(each.name_of("optimizer"), each.optimizer, models)
    for name, part in others.items():
        _check_steps(name, part, tracked)


def _check_steps(name: str, part: object, models: list[torch.nn.Module]) -> None:
    known = {id(one) for model in models for one in model.parameters()}
    if isinstance(part, torch.optim.Optimizer) and not any(
        id(one) in known for one in parameters_of(part)
    ):
        of = " or ".join(dict.fromkeys(type(unwrapped(model)).__name__ for model in models))
        raise ValueError(
            f"track: got {name} with no parameter of {of}; expected an optimizer of what is "
            "tracked. Make it from model.parameters() of the model that is passed, after the "
            "model is wrapped."
        )


def _type_of(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(each).__name__ for each in value)})"
    return type(value).__name__
