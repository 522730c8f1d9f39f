"""The tensors of a checkpoint: copied into reusable buffers, so that training continues at once."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
import torch

from trainshed.checkpoint.manifest import TrackedObject

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A nested dict or list whose leaves are tensors and plain values, as state_dict() returns.
State: TypeAlias = object
Keys: TypeAlias = tuple[object, ...]
Held = TypeVar("Held")

# 64-bit words of Python's generator, 32-bit ones of NumPy's, and their extra numbers.
_PYTHON_WORDS, _NUMPY_KEYS, _EXTRAS = 625, 624, 5
# Seed and offset of torch's CUDAGeneratorImpl, 8 bytes each.
_CUDA_BYTES = 16


@runtime_checkable
class Stateful(Protocol):
    """An object whose state checkpoints save."""

    def state_dict(self) -> dict[str, object]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, object], /) -> object:
        """Load the state."""
        ...


class Buffers:
    """CPU buffers for one copy of a state; reused, as fresh pages cost several times the copy."""

    def __init__(self) -> None:
        # By the tuple of keys to a tensor: joined to a string, "a/b" and a, b would be equal.
        self._kept: dict[Keys, torch.Tensor] = {}

    def copy(self, state: Held, name: str) -> Held:
        """Return a copy of a state whose tensors use the buffers of a name."""
        copied = cast("Held", self._copy(state, (name,)))
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()  # the copies were queued asynchronously
        return copied

    def _copy(self, value: State, path: Keys) -> State:
        if isinstance(value, torch.Tensor):
            kept = self._kept.get(path)
            if kept is None or kept.shape != value.shape or kept.dtype != value.dtype:
                kept = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
                self._kept[path] = kept
            return kept.copy_(value.detach(), non_blocking=True)
        if isinstance(value, Mapping):
            return {key: self._copy(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self._copy(item, (*path, n)) for n, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        return copy.deepcopy(value)


def objects_in(saved: Mapping[str, object]) -> dict[str, TrackedObject]:
    """Return the objects of a checkpoint whose manifest does not name them, by their state."""
    return {
        name: TrackedObject(kind=_kind_of(name, state), files=())
        for name, state in saved.items()
        if name != "random"
    }


def _kind_of(name: str, state: object) -> str:
    if name in {"model", "optimizer", "scheduler", "scaler"}:
        return name
    if not isinstance(state, Mapping) or not state:
        return "other"
    if state.keys() >= {"state", "param_groups"}:
        return "optimizer"
    if state.keys() >= {"last_epoch", "_step_count"}:
        return "scheduler"
    is_model = all(isinstance(value, torch.Tensor) for value in state.values())
    return "model" if is_model else "other"


def random_state() -> torch.Tensor:
    """Return this process's random state as bytes, shape (bytes,); equal length on all ranks."""
    _, words, next_gauss = random.getstate()
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    # Both generators draw normal numbers in pairs and store the second one for the next call.
    extras = [position, has_gauss, gauss, next_gauss is not None, next_gauss or 0.0]
    parts = [
        torch.get_rng_state(),
        _bytes(np.asarray(words, dtype=np.uint64)),
        _bytes(np.asarray(keys, dtype=np.uint32)),
        _bytes(np.asarray(extras, dtype=np.float64)),
    ]
    return torch.cat([*parts, _cuda_state()])


def set_random_state(state: torch.Tensor) -> None:
    """Restore a random state of `random_state`."""
    sizes = [torch.get_rng_state().numel(), _PYTHON_WORDS * 8, _NUMPY_KEYS * 4, _EXTRAS * 8]
    rest = state.numel() - sum(sizes)
    torch_part, python_part, keys, tail, cuda = torch.split(state, [*sizes, rest])
    torch.set_rng_state(torch_part)
    position, has_gauss, gauss, has_next, next_gauss = tail.numpy().view(np.float64).tolist()
    words = tuple(python_part.numpy().view(np.uint64).tolist())
    random.setstate((3, words, next_gauss if has_next else None))
    numpy_keys = keys.numpy().view(np.uint32)
    np.random.set_state(("MT19937", numpy_keys, int(position), int(has_gauss), gauss))
    # Earlier releases wrote nothing without a visible GPU.
    if rest and cuda.any() and torch.cuda.is_available():
        torch.cuda.set_rng_state(cuda)


def _cuda_state() -> torch.Tensor:
    """Return the state of this process's GPU, zeros if it uses none.

    Querying it would initialize CUDA, with some 500 MB of GPU memory, and Ray leaves GPUs
    visible to workers that did not request any.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return torch.zeros(_CUDA_BYTES, dtype=torch.uint8)
    return torch.cuda.get_rng_state()


def _bytes(array: NDArray[np.generic]) -> torch.Tensor:
    return torch.from_numpy(array.view(np.uint8).copy())


def seed_everything(seed: int, rank: int) -> None:
    """Seed all random numbers of a fresh run; ranks differ, so that their dropout does."""
    mixed = int(np.random.SeedSequence([seed, rank]).generate_state(1)[0])
    random.seed(mixed)
    np.random.seed(mixed)
    torch.manual_seed(mixed)
