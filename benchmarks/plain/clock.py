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
    """Measures the waits for the first and for later batches of each epoch, and its length."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def batches(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches of one epoch and measure it."""
        iterator = iter(batches)
        started = time.perf_counter()
        batch = next(iterator, None)
        first = time.perf_counter()
        waited, count = 0.0, 0
        while batch is not None:
            count += 1
            yield batch
            requested = time.perf_counter()
            batch = next(iterator, None)
            waited += time.perf_counter() - requested
        ended = time.perf_counter()
        self.epochs.append(
            {
                "firstSeconds": first - started,
                "waitedSeconds": waited,
                "steadySeconds": ended - first,
                "steps": count,
            }
        )

    def write(self, file: str) -> None:
        """Write the times of all epochs as JSON."""
        Path(file).write_text(json.dumps(self.epochs), encoding="utf-8")
