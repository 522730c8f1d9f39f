"""A device whose numbers arrive when a test says so."""

from dataclasses import dataclass, field

import torch


@dataclass
class LateNumbers:
    """Numbers that have arrived once `has_come` is set, or somebody waits for them."""

    numbers: torch.Tensor
    has_come: bool = False
    was_waited_for: bool = False

    def is_there(self) -> bool:
        return self.has_come

    def values(self) -> list[float]:
        self.was_waited_for = not self.has_come
        self.has_come = True
        return [float(number) for number in self.numbers.tolist()]


@dataclass
class Device:
    """Stands for CUDA: numbers have to be fetched from it, and arrive late."""

    fetched: list[LateNumbers] = field(default_factory=list)

    def fetch(self, numbers: torch.Tensor) -> LateNumbers:
        self.fetched.append(LateNumbers(numbers))
        return self.fetched[-1]
