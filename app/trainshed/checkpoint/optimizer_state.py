"""The state of an optimizer by its parameters' names: another wrapper gives them other numbers.

FSDP knows names only, and a run whose model it holds may go on with one worker, where
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
    """A checkpoint of an optimizer whose parameters are not those of this one."""


def names_of(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> Names | None:
    """Return the names of each group's parameters; None where one of them is not the model's."""
    known = {id(found): plain_name(name) for name, found in unwrapped(model).named_parameters()}
    groups = [[known.get(id(one)) for one in group["params"]] for group in optimizer.param_groups]
    names = [[name for name in group if name is not None] for group in groups]
    return names if names == groups else None


def by_name(state: Mapping[str, object], names: Names | None) -> dict[str, object]:
    """Return the state that an optimizer gives, with names for its parameters' numbers.

    One of another form than torch.optim's, as an optimizer around others may give, stays as it is.
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
    """Return a state for an optimizer to load, whatever order its parameters had when it was saved.

    Raises:
        OtherParametersError: naming what only one of the two has.
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
