"""Turns logged values into means, in bounded memory and on any device."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsFloat

import torch

from trainshed.worker.device_reads import fetch

if TYPE_CHECKING:
    from trainshed.worker.device_reads import Fetch, Fetched
    from trainshed.worker.step_sync import Control

# Number of device tensors to keep before they are summed.
_MOST_KEPT = 256


@dataclass
class _OnDevice:
    """The values of one name on one device."""

    kept: list[torch.Tensor] = field(default_factory=list)
    count: int = 0

    def add(self, value: torch.Tensor) -> None:
        # A copy: the next step may overwrite the same memory.
        self.kept.append(value.to(torch.float64, copy=True))
        self.count += 1
        if len(self.kept) >= _MOST_KEPT:
            self.kept = [self.total()]

    def total(self) -> torch.Tensor:
        return torch.stack(self.kept).sum()


@dataclass(frozen=True)
class _Coming:
    """Sums in transit from one device, and the number of values of each."""

    counts: dict[str, int]
    sums: Fetched


class Logged:
    """Means of scalars by name. `add` and `flush` are for the training thread.

    Args:
        fetch: copies numbers from a device.
    """

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        # By name sum and count: of values without a mean yet, and since the last `means_of_ranks`.
        self._sums: dict[str, tuple[float, int]] = {}
        self._since: dict[str, tuple[float, int]] = {}
        self._on_device: dict[torch.device, dict[str, _OnDevice]] = {}
        self._coming: dict[torch.device, _Coming] = {}
        self._means: dict[str, float] = {}
        self._steps: dict[str, int] = {}

    def add(self, name: str, value: float | torch.Tensor, step: int) -> None:
        """Add a value.

        Args:
            step: number of steps that the weights include.

        Raises:
            ValueError: for a value that is not a single number.
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
        """Add everything that was logged to the means; waits for the device."""
        for device in list(self._on_device):
            self._arrive(device)
            if self._on_device[device]:
                self._bring(device)
                self._arrive(device)
        self.settle()

    def settle(self) -> None:
        """Add what has arrived to the means; from any thread, without waiting."""
        for device, coming in list(self._coming.items()):
            if coming.sums.is_there():
                self._arrive(device)
        with self._lock:
            sums, self._sums = self._sums, {}
            self._means.update({name: total / count for name, (total, count) in sums.items()})

    def means(self) -> dict[str, float]:
        """Return the last mean of the logged and settled values."""
        with self._lock:
            return dict(self._means)

    def means_of_ranks(self, control: Control) -> tuple[dict[str, float], dict[str, int]]:
        """Return the means over all ranks since the last call, and the step of each.

        A collective, for the training thread; waits for devices. Ranks may log different
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
    """Return whether a tensor's number can be read without waiting."""
    return tensor.device.type == "cpu"


def _as_float(name: str, value: SupportsFloat) -> float:
    got = type(value).__name__
    if isinstance(value, str | bytes):
        raise ValueError(f"log: {name} is a {got}; expected a single number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"log: {name} is a {got}; expected a single number ({error})") from None


def _scalar(name: str, value: torch.Tensor) -> torch.Tensor:
    tensor = value.detach()
    if tensor.numel() != 1:
        shape = tuple(tensor.shape)
        raise ValueError(f"log: {name} has the shape {shape}; expected a single number")
    if tensor.is_meta or tensor.is_complex():
        got = "no value (device meta)" if tensor.is_meta else "a complex value"
        raise ValueError(f"log: {name} has {got}; expected a single number")
    dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    return dense.reshape(())
