"""What may be loaded from a checkpoint: plain values, unless the user's file trusts more.

A pickled object runs code when it is loaded, and whoever may write to the storage may write one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy._core.multiarray import _reconstruct, scalar

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Beside what torch takes for safe: values of NumPy and of Python that make nothing but themselves.
_PLAIN: tuple[Callable[..., object], ...] = (
    range,
    np.ndarray,
    np.dtype,
    scalar,
    _reconstruct,
    *{type(np.dtype(code)) for code in np.typecodes["All"] if code not in "OV"},
)


@contextlib.contextmanager
def plain_values() -> Iterator[None]:
    """Let torch.load(weights_only=True) take plain values of NumPy, too."""
    with torch.serialization.safe_globals(list(_PLAIN)):
        yield


def check_plain(file: Path) -> None:
    """Refuse a file of torch.save that holds more than plain values; loads nothing of it.

    Raises:
        SpecError: naming the classes, and the field that trusts them.
    """
    with plain_values():
        found = torch.serialization.get_unsafe_globals_in_checkpoint(str(file))
    if found:
        names = ", ".join(sorted(found))
        want = "true, if you trust whoever may write there; else track state of plain values"
        got = f"false, and {file} holds objects that run code when they are loaded: {names}"
        raise SpecError([Problem("spec.checkpoint.trustObjects", got, want)])
