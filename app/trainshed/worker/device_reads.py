"""Copies numbers from a device without waiting and without a second thread on the device.

A second thread that reads a tensor waits for unrelated streams, and breaks the capture of a CUDA
graph. So the training thread queues the copy, and readers check whether it is done.
"""

from __future__ import annotations

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
