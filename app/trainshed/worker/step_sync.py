"""The steps at which all ranks agree on what to do next.

One small all-reduce about four times a second: rank 0 contributes stop requests and finished
checkpoints, every rank its timers. So all ranks act at the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist

from trainshed.worker.phase_timer import WORKER_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_BETWEEN = 0.25
# The first agreement is soon after the start: the speed is not known yet.
FIRST_STEPS = 2


@dataclass(frozen=True)
class StepSync:
    """What all ranks do from this step on.

    Args:
        next_step: the step of the next agreement.
        stop: whether to write a checkpoint and end.
        written: number of checkpoints that rank 0's writer has finished.
        seconds: mean over ranks, by bucket.
        bad_step: the first step with a NaN or infinite loss, on any rank.
    """

    next_step: int
    stop: bool
    written: int
    seconds: Mapping[str, float]
    bad_step: int | None


@dataclass(frozen=True)
class Proposal:
    """The contribution of a rank; `stop`, `next_step` and `written` count on rank 0 only."""

    next_step: int
    stop: bool
    written: int
    seconds: Mapping[str, float]
    bad_step: int | None


class Control:
    """A separate process group for agreements; gloo, because the numbers are on the CPU.

    Attributes:
        rank: of this worker.
    """

    def __init__(self) -> None:
        self._ranks = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self._group = (
            cast("dist.ProcessGroup", dist.new_group(backend="gloo")) if self._ranks > 1 else None
        )

    def agree(self, mine: Proposal) -> StepSync:
        """Exchange proposals; a collective that every rank must enter at the same step."""
        leads = float(self.rank == 0)
        # numbers has shape (4 + buckets,)
        numbers = torch.tensor(
            [
                leads * mine.next_step,
                leads * mine.stop,
                leads * mine.written,
                float(mine.bad_step is not None),
                *(mine.seconds[bucket] / self._ranks for bucket in WORKER_BUCKETS),
            ],
            dtype=torch.float64,
        )
        self.sum(numbers)
        next_step, stop, written, bad, *seconds = numbers.tolist()
        return StepSync(
            int(next_step),
            bool(stop),
            int(written),
            dict(zip(WORKER_BUCKETS, seconds, strict=True)),
            self._first(mine.bad_step) if bad else None,
        )

    def sum(self, numbers: torch.Tensor) -> None:
        """Replace the numbers by their sums over ranks; they must be on the CPU."""
        if self._group is not None:
            dist.all_reduce(numbers, group=self._group)

    def gather(self, state: torch.Tensor) -> list[torch.Tensor]:
        """Return every rank's tensor, in rank order; all of one shape, on the CPU."""
        if self._group is None:
            return [state]
        states = [torch.empty_like(state) for _ in range(self._ranks)]
        dist.all_gather(states, state, group=self._group)
        return states

    def exchange(self, text: str) -> list[str]:
        """Return every rank's text, in rank order."""
        encoded = text.encode()
        lengths = torch.cat(self.gather(torch.tensor([len(encoded)]))).tolist()
        # padded has shape (bytes of the longest,)
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        if encoded:
            padded[: len(encoded)] = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        return [
            bytes(each[:length].tolist()).decode()
            for each, length in zip(self.gather(padded), lengths, strict=True)
        ]

    def from_leader(self, number: int) -> int:
        """Return rank 0's number on every rank."""
        shared = torch.tensor([number if self.rank == 0 else 0], dtype=torch.int64)
        self.sum(shared)
        return int(shared.item())

    def _first(self, step: int | None) -> int:
        steps = torch.tensor([2**62 if step is None else step], dtype=torch.int64)
        if self._group is not None:
            dist.all_reduce(steps, op=dist.ReduceOp.MIN, group=self._group)
        return int(steps.item())


def next_agreement(step: int, seconds_per_step: float) -> int:
    """Return the step of the next agreement."""
    if seconds_per_step <= 0:
        return step + FIRST_STEPS
    return step + max(1, round(SECONDS_BETWEEN / seconds_per_step))
