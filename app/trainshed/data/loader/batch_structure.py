"""Splits the result of `feed.collate` into tensors and their structure.

The transfer to a device then handles only a dict of tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, fields, is_dataclass
from typing import cast

import numpy as np
import torch

Tensors = dict[str, torch.Tensor]

_NUMBERS = "biufc"


class _Place:
    """The position of a tensor.

    Args:
        name: of the tensor.
    """

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True)
class BatchStructure:
    """Nested dicts, lists, tuples and dataclasses without their tensors.

    Args:
        names: of its tensors.
        bare: everything else, with placeholders for the tensors.
    """

    names: tuple[str, ...]
    bare: object

    def filled(self, tensors: Mapping[str, torch.Tensor]) -> object:
        """Return the structure with its tensors, or with others of the same names."""

        def put(leaf: object) -> object:
            return tensors[leaf.name] if isinstance(leaf, _Place) else leaf

        return _changed(self.bare, put)


def take_apart(value: object, prefix: str) -> tuple[BatchStructure, Tensors]:
    """Return a structure without its tensors, and the tensors; numeric arrays become tensors.

    prefix: of the tensors' names.
    """
    tensors: Tensors = {}

    def take(leaf: object) -> object:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in _NUMBERS:
            # torch warns about read-only memory.
            leaf = torch.from_numpy(np.require(leaf, requirements=["C", "W"]))
        if not isinstance(leaf, torch.Tensor):
            return leaf
        name = f"{prefix}{len(tensors)}"
        tensors[name] = leaf
        return _Place(name)

    bare = _changed(value, take)
    return BatchStructure(tuple(tensors), bare), tensors


def _changed(value: object, change: Callable[[object], object]) -> object:
    """Return the same structure with other leaves; the input is not changed."""
    if isinstance(value, MutableMapping):
        made = copy.copy(value)  # a subclass of dict may have more than its items
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
            # Fields of a frozen dataclass can only be set this way.
            object.__setattr__(made_of, each.name, _changed(getattr(value, each.name), change))
        return made_of
    return change(value)
