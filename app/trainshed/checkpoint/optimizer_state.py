"""The state of an optimizer by parameter names: other wrappers number parameters differently.

FSDP uses names only, and its run may resume on one worker, where
`ray.train.torch.prepare_model` wraps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

from trainshed.checkpoint.wrapping import plain_name, unwrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

Names = list[list[str]]
_KEYS = frozenset({"state", "param_groups"})


class _State(TypedDict):
    """What torch.optim.Optimizer.state_dict returns."""

    state: dict[object, object]
    param_groups: list[dict[str, object]]


class OtherParametersError(ValueError):
    """The state of an optimizer with other parameters than this one."""


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return what an optimizer steps."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def names_of(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> Names | None:
    """Return the names of each group's parameters; None if one is not in the model."""
    known = {id(found): plain_name(name) for name, found in unwrapped(model).named_parameters()}
    groups = [[known.get(id(one)) for one in group["params"]] for group in optimizer.param_groups]
    names = [[name for name in group if name is not None] for group in groups]
    return names if names == groups else None


def by_name(state: Mapping[str, object], names: Names | None) -> dict[str, object]:
    """Return the state of an optimizer, with names instead of parameter numbers.

    Another form than torch.optim's, as from optimizers that wrap others, is returned unchanged.
    """
    if names is None or not state.keys() >= _KEYS:
        return dict(state)
    told = cast("_State", state)
    flat = [name for group in names for name in group]
    groups = zip(told["param_groups"], names, strict=True)
    return {
        **state,
        "state": {
            flat[key] if isinstance(key, int) else key: value
            for key, value in told["state"].items()
        },
        "param_groups": [{**group, "params": params} for group, params in groups],
    }


def by_number(state: Mapping[str, object], names: Names | None) -> dict[str, object]:
    """Return a state for an optimizer to load, for any order of parameters when it was saved.

    Raises:
        OtherParametersError: naming a parameter that only one of the two has.
    """
    if not state.keys() >= _KEYS:
        return dict(state)
    told = cast("_State", state)
    saved = [cast("Sequence[object]", group["params"]) for group in told["param_groups"]]
    if all(isinstance(param, int) for group in saved for param in group):
        return dict(state)
    names = names or []
    if [set(group) for group in saved] != [set(group) for group in names]:
        theirs, ours = ({param for group in one for param in group} for one in (saved, names))
        one = next(iter(sorted(map(str, theirs ^ ours))), "one in another group")
        raise OtherParametersError(
            f"track: the optimizer's parameters are not those of the checkpoint: {one}"
        )
    number = {name: n for n, name in enumerate(name for group in names for name in group)}
    groups = zip(told["param_groups"], names, strict=True)
    return {
        **state,
        "state": {number.get(str(key), key): value for key, value in told["state"].items()},
        "param_groups": [
            {**group, "params": [number[name] for name in params]} for group, params in groups
        ],
    }
