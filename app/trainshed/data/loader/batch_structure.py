"""What a function makes of a batch, taken apart: tensors that travel, and the nest they belong in.

On the way to a device nobody has to know more than a dict of tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensors = dict[str, torch.Tensor]

_NUMBERS = "biufc"


class _Place:
    """Where a tensor belongs.

    Args:
        name: of the tensor.
    """

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True)
class BatchStructure:
    """Dicts, lists, tuples and dataclasses in each other, whose tensors lie elsewhere.

    Args:
        names: of its tensors.
        bare: all else, with places for these.
    """

    names: tuple[str, ...]
    bare: object

    def filled(self, tensors: Mapping[str, torch.Tensor]) -> object:
        """Return the nest with its tensors, or with others of their names."""

        def put(leaf: object) -> object:
            return tensors[leaf.name] if isinstance(leaf, _Place) else leaf

        return _changed(self.bare, put)


def take_apart(value: object, prefix: str) -> tuple[BatchStructure, Tensors]:
    """Return a nest without its tensors, and these; arrays of numbers become tensors.

    prefix: of the tensors' names.
    """
    tensors: Tensors = {}

    def take(leaf: object) -> object:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in _NUMBERS:
            leaf = _as_tensor(leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        name = f"{prefix}{len(tensors)}"
        tensors[name] = leaf
        return _Place(name)

    bare = _changed(value, take)
    return BatchStructure(tuple(tensors), bare), tensors


def _as_tensor(array: NDArray[np.generic]) -> torch.Tensor:
    # torch warns of memory that is not to be written.
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _changed(value: object, change: Callable[[object], object]) -> object:
    """Return a nest of the same kinds with other leaves; the one that is given stays as it is."""
    if isinstance(value, MutableMapping):
        made = copy.copy(value)  # what is no dict may have more than its items
        for key, item in value.items():
            made[key] = _changed(item, change)
        return made
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if isinstance(value, tuple):
        items = [_changed(item, change) for item in value]
        is_named = hasattr(value, "_fields")
        return cast("Callable[..., object]", type(value))(*items) if is_named else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        made_of = copy.copy(value)
        for each in fields(value):
            # A frozen one has nobody set its fields otherwise.
            object.__setattr__(made_of, each.name, _changed(getattr(value, each.name), change))
        return made_of
    return change(value)
