"""Wrappers of a model: the module to evaluate, parameter names without them, what is refused.

FSDP, DTensor and torch.compile are used only if they are loaded: each takes seconds to
import, and a module that nobody has imported wraps nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch.distributed.fsdp import FullyShardedDataParallel

# The name that torch.compile gives to its module (torch/_dynamo/eval_frame.py).
_COMPILED = "_orig_mod"


class UnsupportedWrapperError(TypeError):
    """A model whose wrapper no checkpoint supports; the message says how to wrap it."""


def inside(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside torch.compile, or the model itself."""
    while (given := model._modules.get(_COMPILED)) is not None:
        model = given
    return model


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module without DistributedDataParallel and without torch.compile around it."""
    wrapper = inside(model)
    if isinstance(wrapper, torch.nn.parallel.DistributedDataParallel):
        return unwrapped(cast("torch.nn.Module", wrapper.module))
    return model


def sharded(model: torch.nn.Module) -> FullyShardedDataParallel | None:
    """Return the FSDP module of a model, whose state all ranks must gather together."""
    wrapper = inside(model)
    return wrapper if _is_fsdp(wrapper) else None


def plain_name(name: str) -> str:
    """Return the name of a tensor of a state without torch.compile."""
    return ".".join(part for part in name.split(".") if part != _COMPILED)


def plain_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's state by its names without DDP and torch.compile, at any depth."""
    names = _plain_names(model)
    return {names[name]: value for name, value in model.state_dict().items()}


def load_plain_state(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load a state of `plain_state`, or one of earlier releases with wrapper names."""
    own = {plain: name for name, plain in _plain_names(model).items()}

    def own_name(name: str) -> str:
        plain = plain_name(name)
        # The state may be from a DDP module that is now unwrapped.
        return own.get(plain) or own.get(plain.replace("module.", "", 1), name)

    model.load_state_dict({own_name(name): value for name, value in state.items()})


def _plain_names(model: torch.nn.Module) -> dict[str, str]:
    """Return the plain name of each tensor of a module's state, by its current name."""
    ddp = torch.nn.parallel.DistributedDataParallel
    wrappers = [name for name, part in model.named_modules() if isinstance(part, ddp)]
    heads = [f"{name}." if name else "" for name in wrappers]
    plain = {}
    for name in model.state_dict():
        found = name
        for head in sorted(heads, key=len, reverse=True):  # innermost first
            if found.startswith(f"{head}module."):
                found = head + found.removeprefix(f"{head}module.")
        plain[name] = plain_name(found)
    return plain


def check_wrapping(model: torch.nn.Module) -> None:
    """Refuse a model whose checkpoint would hang or be wrong.

    Raises:
        UnsupportedWrapperError: with what is supported.
    """
    for name, parameter in model.named_parameters():
        if _is_dtensor(parameter):
            raise UnsupportedWrapperError(
                f"track: parameter {name} is a DTensor, as fully_shard (FSDP2) and tensor "
                "parallelism make them, which checkpoints cannot hold; shard the model by "
                'ray.train.torch.prepare_model(model, parallel_strategy="fsdp") instead'
            )
    outer = inside(model)
    if _is_fsdp(outer) and outer.compute_device == torch.device("cpu") and outer._use_orig_params:
        # _allgather_orig_param_states of torch 2.15 gathers each kind of state into one tensor and
        # returns views of it, which only a copy from a device separates.
        raise UnsupportedWrapperError(
            "track: FSDP with use_orig_params=True on CPUs, where torch mixes up what it gathers "
            "of the optimizer; leave use_orig_params out, or use GPUs"
        )
    for name, part in outer.named_modules():
        if part is not outer and _is_fsdp(part) and not _is_fsdp(outer):
            raise UnsupportedWrapperError(
                f"track: FSDP holds only the part {name} of the model; wrap the whole model in "
                "FSDP, parts of it by an auto_wrap_policy"
            )
        if _is_fsdp(outer) and _COMPILED in part._modules:
            raise UnsupportedWrapperError(
                f"track: FSDP holds the part {name} that torch.compile was given before; compile "
                "what FSDP returns, or the part by its own method compile()"
            )


def trains_alone(model: torch.nn.Module, world_size: int) -> str | None:
    """Return a warning for a model that no wrapper trains on all ranks together, else None."""
    if world_size == 1 or unwrapped(model) is not model or sharded(model):
        return None
    return (
        f"{type(inside(model)).__name__} is not wrapped for {world_size} workers: each trains "
        "alone; pass it through ray.train.torch.prepare_model first"
    )


def make_scaler(
    models: Iterable[torch.nn.Module], device: str, *, enabled: bool
) -> torch.amp.GradScaler:
    """Return the gradient scaler; with a sharded model one that skips a step on all ranks."""
    if any(sharded(model) for model in models):
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        return ShardedGradScaler(device, enabled=enabled)
    return torch.amp.GradScaler(device, enabled=enabled)


def _is_fsdp(module: torch.nn.Module) -> TypeGuard[FullyShardedDataParallel]:
    if "torch.distributed.fsdp" not in sys.modules:
        return False
    from torch.distributed.fsdp import FullyShardedDataParallel

    return isinstance(module, FullyShardedDataParallel)


def _is_dtensor(parameter: torch.nn.Parameter) -> bool:
    if "torch.distributed.tensor" not in sys.modules:
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(parameter, DTensor)
