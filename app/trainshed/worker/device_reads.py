"""Numbers on their way from a device: nobody waits for it, and no second thread asks it.

A second thread that reads a tensor waits on streams that it knows nothing of, and breaks the
capture of a CUDA graph. So the thread that trains queues the copy, and who reads looks whether it
is there.
"""

from __future__ import annotations

from typing import Protocol

import torch


class Fetched(Protocol):
    """Numbers that are there, or will be."""

    def is_there(self) -> bool:
        """Say whether they can be had without waiting; asked by any thread."""
        ...

    def values(self) -> list[float]:
        """Return them; waits for them."""
        ...


class Here:
    """Numbers that a CPU tensor of shape (n,) has now."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self._values = [float(number) for number in numbers.tolist()]

    def is_there(self) -> bool:
        """They are."""
        return True

    def values(self) -> list[float]:
        """Return them."""
        return self._values


class FromCuda:
    """Numbers of a CUDA tensor of shape (n,), copied after all that its stream has to do now."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self._copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        self._copy.copy_(numbers, non_blocking=True)
        self._copied: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied.record(torch.cuda.current_stream(numbers.device))

    def is_there(self) -> bool:
        """Say whether the device has copied them."""
        return bool(self._copied.query())  # type: ignore[no-untyped-call]

    def values(self) -> list[float]:
        """Return them once it has."""
        self._copied.synchronize()
        return [float(number) for number in self._copy.tolist()]


def fetch(numbers: torch.Tensor) -> Fetched:
    """Begin to fetch a tensor of shape (n,); by the thread that trains.

    Of a device other than a CPU or a CUDA one they are waited for here.
    """
    return FromCuda(numbers) if numbers.is_cuda else Here(numbers)
