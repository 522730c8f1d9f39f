"""The tensors of a checkpoint: copied fast into kept buffers, so that training goes on at once."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import torch

# A nested dict or list whose leaves are tensors and plain values, as state_dict() returns.
State: TypeAlias = object


@runtime_checkable
class Stateful(Protocol):
    """Whatever has to survive a restart."""

    def state_dict(self) -> dict[str, object]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, object], /) -> object:
        """Take the state over."""
        ...


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module itself, without DistributedDataParallel around it."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return cast("torch.nn.Module", model.module)
    return model


class Buffers:
    """CPU memory for one copy of a state; kept, because fresh pages cost several times the copy."""

    def __init__(self) -> None:
        self._kept: dict[str, torch.Tensor] = {}

    def copy(self, state: Mapping[str, object], name: str) -> dict[str, object]:
        """Return a copy of a state whose tensors lie in the memory kept under a name."""
        copied = {key: self._copy(value, f"{name}/{key}") for key, value in state.items()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()  # the copies were queued without waiting
        return copied

    def _copy(self, value: State, path: str) -> State:
        if isinstance(value, torch.Tensor):
            kept = self._kept.get(path)
            if kept is None or kept.shape != value.shape or kept.dtype != value.dtype:
                kept = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
                self._kept[path] = kept
            return kept.copy_(value.detach(), non_blocking=True)
        if isinstance(value, Mapping):
            return {key: self._copy(item, f"{path}/{key}") for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self._copy(item, f"{path}/{n}") for n, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        return copy.deepcopy(value)


def random_state() -> torch.Tensor:
    """Return this process's random state as bytes, shape (bytes,), of the same length on all ranks."""
    _, words, _ = random.getstate()
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    parts = [
        torch.get_rng_state(),
        torch.from_numpy(np.asarray(words, dtype=np.uint64).view(np.uint8).copy()),
        torch.from_numpy(np.asarray(keys, dtype=np.uint32).view(np.uint8).copy()),
        torch.from_numpy(
            np.asarray([position, has_gauss, gauss], dtype=np.float64).view(np.uint8).copy()
        ),
    ]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_rng_state())
    return torch.cat(parts)


def set_random_state(state: torch.Tensor) -> None:
    """Put a random state of `random_state` back."""
    sizes = [torch.get_rng_state().numel(), 625 * 8, 624 * 4, 3 * 8]
    rest = state.numel() - sum(sizes)
    torch_part, python_part, keys, tail, cuda = torch.split(state, [*sizes, rest])
    torch.set_rng_state(torch_part)
    words = python_part.numpy().view(np.uint64)
    random.setstate((3, tuple(int(word) for word in words), None))
    position, has_gauss, gauss = tail.numpy().view(np.float64)
    numpy_keys = keys.numpy().view(np.uint32)
    np.random.set_state(("MT19937", numpy_keys, int(position), int(has_gauss), float(gauss)))
    if rest and torch.cuda.is_available():
        torch.cuda.set_rng_state(cuda)


def seed_everything(seed: int, rank: int) -> None:
    """Start all random numbers of a fresh run; ranks differ, so that their dropout does."""
    mixed = int(np.random.SeedSequence([seed, rank]).generate_state(1)[0])
    random.seed(mixed)
    np.random.seed(mixed)
    torch.manual_seed(mixed)
