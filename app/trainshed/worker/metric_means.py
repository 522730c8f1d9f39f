"""What a training function logs becomes means, in bounded memory and on whatever device it lies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsFloat

import torch

from trainshed.worker.device_reads import fetch

if TYPE_CHECKING:
    from trainshed.worker.device_reads import Fetched
    from trainshed.worker.step_sync import Control

# Tensors of a device that are kept one by one; then their sum is.
_MOST_KEPT = 256
Fetch = Callable[[torch.Tensor], "Fetched"]


@dataclass
class _OnDevice:
    """What of one name lies on one device."""

    kept: list[torch.Tensor] = field(default_factory=list)
    count: int = 0

    def add(self, value: torch.Tensor) -> None:
        # A copy: the next step may write its own number into the same memory.
        self.kept.append(value.to(torch.float64, copy=True))
        self.count += 1
        if len(self.kept) >= _MOST_KEPT:
            self.kept = [self.total()]

    def total(self) -> torch.Tensor:
        return torch.stack(self.kept).sum()


@dataclass(frozen=True)
class _Coming:
    """Sums on their way from one device, and how many numbers each is of."""

    counts: dict[str, int]
    sums: Fetched


class Logged:
    """Means of scalars by name. `add` and `flush` are for the thread that trains.

    Args:
        fetch: brings numbers of a device.
    """

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        # By name sum and count: of what no mean has yet, and since the last `means_of_ranks`.
        self._sums: dict[str, tuple[float, int]] = {}
        self._since: dict[str, tuple[float, int]] = {}
        self._on_device: dict[torch.device, dict[str, _OnDevice]] = {}
        self._coming: dict[torch.device, _Coming] = {}
        self._means: dict[str, float] = {}
        self._steps: dict[str, int] = {}

    def add(self, name: str, value: float | torch.Tensor, step: int) -> None:
        """Take a number in.

        Args:
            step: number of the steps that the weights have behind them which it is of.

        Raises:
            ValueError: for what is no single number; names it.
        """
        if not isinstance(value, torch.Tensor):
            self._count(name, _as_float(name, value))
            self._steps[name] = step
            return
        tensor = _scalar(name, value)
        self._steps[name] = step
        if is_here(tensor):
            self._count(name, float(tensor))
            return
        there = self._on_device.setdefault(tensor.device, {})
        there.setdefault(name, _OnDevice()).add(tensor)
        if tensor.device not in self._coming:
            self._bring(tensor.device)

    def flush(self) -> None:
        """Have all that was logged among the means; waits for the device."""
        for device in list(self._on_device):
            self._arrive(device)
            if self._on_device[device]:
                self._bring(device)
                self._arrive(device)
        self.settle()

    def settle(self) -> None:
        """Have what is here among the means; by any thread, and no device is waited for."""
        for device, coming in list(self._coming.items()):
            if coming.sums.is_there():
                self._arrive(device)
        with self._lock:
            sums, self._sums = self._sums, {}
            self._means.update({name: total / count for name, (total, count) in sums.items()})

    def means(self) -> dict[str, float]:
        """Return the last mean of all that was logged and settled."""
        with self._lock:
            return dict(self._means)

    def means_of_ranks(self, control: Control) -> tuple[dict[str, float], dict[str, int]]:
        """Return the means over all ranks since the last call, and at which step each was logged.

        A collective, for the thread that trains; waits for devices. Ranks may have logged different
        names.
        """
        self.flush()
        with self._lock:
            since, self._since = self._since, {}
        mine = {name: (*both, self._steps[name]) for name, both in since.items()}
        sums: dict[str, tuple[float, int]] = {}
        steps: dict[str, int] = {}
        for text in control.exchange(json.dumps(mine)):
            for name, (total, count, step) in json.loads(text).items():
                sum_before, count_before = sums.get(name, (0.0, 0))
                sums[name] = sum_before + total, count_before + count
                steps[name] = max(step, steps.get(name, 0))
        return {name: total / count for name, (total, count) in sums.items()}, steps

    def _bring(self, device: torch.device) -> None:
        there, self._on_device[device] = self._on_device[device], {}
        sums = torch.stack([part.total() for part in there.values()])
        counts = {name: part.count for name, part in there.items()}
        self._coming[device] = _Coming(counts, self._fetch(sums))

    def _arrive(self, device: torch.device) -> None:
        with self._lock:
            coming = self._coming.pop(device, None)
        if coming:
            for (name, count), total in zip(
                coming.counts.items(), coming.sums.values(), strict=True
            ):
                self._count(name, total, count)

    def _count(self, name: str, total: float, count: int = 1) -> None:
        with self._lock:
            for sums in (self._sums, self._since):
                sum_before, count_before = sums.get(name, (0.0, 0))
                sums[name] = (sum_before + total, count_before + count)


def is_here(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's number is read without a wait."""
    return tensor.device.type == "cpu"


def _as_float(name: str, value: SupportsFloat) -> float:
    got = type(value).__name__
    if isinstance(value, str | bytes):
        raise ValueError(f"log: {name} is a {got}, want a single number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"log: {name} is a {got}, want a single number ({error})") from None


def _scalar(name: str, value: torch.Tensor) -> torch.Tensor:
    tensor = value.detach()
    if tensor.numel() != 1:
        shape = tuple(tensor.shape)
        raise ValueError(f"log: {name} has the shape {shape}, want a single number")
    if tensor.is_meta or tensor.is_complex():
        got = "no value (device meta)" if tensor.is_meta else "a complex value"
        raise ValueError(f"log: {name} has {got}, want a single number")
    dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    return dense.reshape(())
