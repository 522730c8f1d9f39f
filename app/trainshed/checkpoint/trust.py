"""Limits what may be loaded from a checkpoint: plain values, unless the spec trusts more.

A pickled object runs code when it is loaded, and anyone who can write to the storage can add one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy._core.multiarray import _reconstruct, scalar

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

# Beyond what torch considers safe: values of NumPy and Python that run no other code.
_PLAIN: tuple[Callable[..., object], ...] = (
    range,
    np.ndarray,
    np.dtype,
    scalar,
    _reconstruct,
    *{type(np.dtype(code)) for code in np.typecodes["All"] if code not in "OV"},
)


def plain_values() -> AbstractContextManager[None]:
    """Allow plain values of NumPy in torch.load(weights_only=True)."""
    return torch.serialization.safe_globals(list(_PLAIN))


def check_plain(file: Path) -> None:
    """Refuse a torch.save file with more than plain values, without loading it.

    Raises:
        SpecError: naming the classes, and the field to trust them.
    """
    with plain_values():
        found = torch.serialization.get_unsafe_globals_in_checkpoint(str(file))
    if found:
        names = ", ".join(sorted(found))
        expected = "true, if you trust whoever may write there; else track state of plain values"
        got = f"false, and {file} holds objects that run code when they are loaded: {names}"
        raise SpecError([Problem("spec.checkpoint.trustObjects", got, expected)])
