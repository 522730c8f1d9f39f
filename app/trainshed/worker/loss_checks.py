"""Checks that losses are finite, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from trainshed.worker.device_reads import fetch

if TYPE_CHECKING:
    from trainshed.worker.device_reads import Fetched

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
