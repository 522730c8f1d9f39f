"""When a task that is given up is interrupted: not while it imports what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ray._private.utils import DeferSigint

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Made = TypeVar("Made")

_BEGUN: set[Hashable] = set()


def next_unbroken(kind: Hashable, coming: Iterator[Made]) -> Made | None:
    """Return what comes next in a task; no interrupt breaks the first of its kind in this process.

    Ray 2.60 interrupts a task that is given up as Ctrl-C does, and its process goes on to others.
    Of these none could import torch 2.15 where that had broken its import, as it is to be
    initialized once (torch/__init__.py). What users' functions, their classes or a format import
    is there with the first that they make. Ray's own means for what it unpickles is used.

    Args:
        kind: of what comes; whatever imports the same is of one kind.
        coming: yields it, and never None.

    Returns:
        None at its end.
    """
    if kind in _BEGUN:
        return next(coming, None)
    with DeferSigint.create_if_main_thread():
        first = next(coming, None)
        _BEGUN.add(kind)
    return first
