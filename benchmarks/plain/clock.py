"""Measures the epochs of a training loop; both sides of a benchmark use it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


class EpochClock:
    """Takes the times of each epoch: to its first batch, waiting for the others, and in all."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def batches(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches of one epoch and take its times."""
        iterator = iter(batches)
        began = time.perf_counter()
        batch = next(iterator, None)
        first = time.perf_counter()
        waited, count = 0.0, 0
        while batch is not None:
            count += 1
            yield batch
            asked = time.perf_counter()
            batch = next(iterator, None)
            waited += time.perf_counter() - asked
        ended = time.perf_counter()
        self.epochs.append(
            {
                "firstSeconds": first - began,
                "waitedSeconds": waited,
                "steadySeconds": ended - first,
                "steps": count,
            }
        )

    def write(self, file: str) -> None:
        """Write the times of all epochs as JSON."""
        Path(file).write_text(json.dumps({"epochs": self.epochs}), encoding="utf-8")
