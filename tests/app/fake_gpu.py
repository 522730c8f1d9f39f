"""Stands for a CUDA device: two queues of work that the device does when the test lets it."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from trainshed.worker.device_prefetcher import Mark

Tensors = dict[str, torch.Tensor]


@dataclass
class End:
    """The end of what was queued before it."""

    device: "FakeGpu"
    is_reached: bool = False

    def synchronize(self) -> None:
        """Have the device do what comes before."""
        self.device.do(until=self)


@dataclass
class FakeGpu:
    """Copies and computes in its own time; what is not copied yet is full of -1.

    Args:
        copies_first: whether it copies as soon as it may, or only when the step needs it.
    """

    copies_first: bool = True
    copying: deque[Callable[[], bool]] = field(default_factory=deque)
    computing: deque[Callable[[], bool]] = field(default_factory=deque)
    kept: list[torch.Tensor] = field(default_factory=list)
    pinned_by: set[str] = field(default_factory=set)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Remember who pinned."""
        self.pinned_by.add(threading.current_thread().name)
        return tensor

    def copy(self, tensors: Tensors) -> tuple[Tensors, Mark]:
        """Queue a copy."""
        there = {name: torch.full_like(tensor, -1) for name, tensor in tensors.items()}
        end = End(self)

        def do() -> bool:
            for name, tensor in tensors.items():
                there[name].copy_(tensor)
            end.is_reached = True
            return True

        self.copying.append(do)
        return there, end

    def compute_after(self, mark: Mark, tensors: Tensors) -> None:
        """Queue a wait."""
        assert isinstance(mark, End)
        self.computing.append(lambda: mark.is_reached)
        self.kept += tensors.values()

    def compute(self, work: Callable[[], object]) -> None:
        """Queue work of a step."""

        def do() -> bool:
            work()
            return True

        self.computing.append(do)

    def mark(self) -> End:
        """Queue a mark."""
        end = End(self)

        def reach() -> bool:
            end.is_reached = True
            return True

        self.computing.append(reach)
        return end

    def do(self, until: End | None = None) -> None:
        """Do what is queued, or so much of it that a mark is reached."""
        queues = [self.copying, self.computing]
        if not self.copies_first:
            queues.reverse()
        while any(queues) and not (until and until.is_reached):
            if not any(self._did_one(queue) for queue in queues):
                raise RuntimeError("what is queued waits for what nobody queued")

    def _did_one(self, queue: deque[Callable[[], bool]]) -> bool:
        if not queue or not queue[0]():
            return False
        queue.popleft()
        return True
