"""Where the time of a long test goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Times:
    """What took how long, in order."""

    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Note how long what is inside takes, also when it fails."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.steps.append((step, time.monotonic() - start))

    def lines(self) -> list[str]:
        """Return a line for each step, and one for their sum."""
        total = sum(seconds for _, seconds in self.steps)
        return [f"{seconds:7.1f} s  {step}" for step, seconds in [*self.steps, ("in all", total)]]
