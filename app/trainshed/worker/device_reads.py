"""Copies numbers from a device without waiting and without a second thread on the device.

A second thread that reads a tensor waits for unrelated streams, and breaks the capture of a CUDA
graph. So the training thread queues the copy, and readers check whether it is done. Losses that
must be finite are checked this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch


class Fetched(Protocol):
    """Numbers that are available now or later."""

    def is_there(self) -> bool:
        """Return whether they are available without waiting; from any thread."""
        ...

    def values(self) -> list[float]:
        """Return them, waiting if necessary."""
        ...


class Here:
    """Numbers of a CPU tensor of shape (n,)."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self._values = [float(number) for number in numbers.tolist()]

    def is_there(self) -> bool:
        """They are."""
        return True

    def values(self) -> list[float]:
        """Return them."""
        return self._values


class FromCuda:
    """Numbers of a CUDA tensor of shape (n,), copied after the work queued on its stream."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self._copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        self._copy.copy_(numbers, non_blocking=True)
        self._copied: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied.record(torch.cuda.current_stream(numbers.device))

    def is_there(self) -> bool:
        """Return whether the device has copied them."""
        return bool(self._copied.query())  # type: ignore[no-untyped-call]

    def values(self) -> list[float]:
        """Return them once they are copied."""
        self._copied.synchronize()
        return [float(number) for number in self._copy.tolist()]


def fetch(numbers: torch.Tensor) -> Fetched:
    """Start to fetch a tensor of shape (n,); on the training thread.

    For devices other than CPU and CUDA this waits.
    """
    return FromCuda(numbers) if numbers.is_cuda else Here(numbers)


Fetch = Callable[[torch.Tensor], "Fetched"]


class Losses:
    """The losses that have not been checked yet; for the training thread.

    Args:
        fetch: copies numbers from a device.
    """

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._kept: list[tuple[int, torch.Tensor]] = []
        self._coming: tuple[list[int], Fetched] | None = None
        self._first_bad: int | None = None

    def add(self, step: int, loss: torch.Tensor) -> None:
        """Add the loss of a step."""
        self._kept.append((step, loss))

    def first_bad(self, *, waits: bool) -> int | None:
        """Return the first step whose loss is known to be NaN or infinite.

        waits: for all added losses; otherwise those of a device are known at a later call.
        """
        self._arrive(waits=waits)
        if self._kept and self._coming is None:
            self._bring()
            self._arrive(waits=waits)
        return self._first_bad

    def _bring(self) -> None:
        kept, self._kept = self._kept, []
        # numbers has shape (steps since the last check,)
        numbers = torch.stack([loss.float().reshape(()) for _, loss in kept])
        self._coming = [step for step, _ in kept], self._fetch(numbers)

    def _arrive(self, *, waits: bool) -> None:
        if self._coming is None or not (waits or self._coming[1].is_there()):
            return
        steps, losses = self._coming
        self._coming = None
        for step, loss in zip(steps, losses.values(), strict=True):
            if self._first_bad is None and not math.isfinite(loss):
                self._first_bad = step
