"""What tests let several ranks do together; each function runs once on each rank."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainshed.worker.evaluation import (
    EvaluationStoppedError,
    exact_means,
    in_step,
    meet_waiting,
    same_buffers,
    until_stopped,
)
from trainshed.worker.phase_timer import WORKER_BUCKETS
from trainshed.worker.step_sync import Control, Proposal, StepSync

BAD_STEPS: tuple[int | None, ...] = (None, 9, 7)
# Of 11 rows the last rank has none, and the others no number of them in common.
ROWS = ((0, 5), (5, 11), (11, 11))


@dataclass(frozen=True)
class Done:
    """What a rank came to know."""

    rank: int
    fine: StepSync
    bad: StepSync
    gathered: list[list[float]]
    told: int
    means: dict[str, float]
    nothing: dict[str, float]
    whole: int
    cut: int
    waited: list[int]


def do_all(rank: int) -> Done:
    """Agree twice, gather, be told, and evaluate."""
    control = Control()

    def propose(bad_step: int | None) -> Proposal:
        seconds = {bucket: float(rank) for bucket in WORKER_BUCKETS}
        # Only rank 0's word counts, but for the seconds and the bad step.
        return Proposal(10 + rank, rank == 0, 5 * (rank + 1), seconds, bad_step)

    fine = control.agree(propose(None))
    bad = control.agree(propose(BAD_STEPS[rank]))
    gathered = [part.tolist() for part in control.gather(torch.full((2,), float(rank)))]
    told = control.from_leader(40 + rank)
    means, nothing = evaluate(rank, control)
    whole, cut = (count_batches(rank, control, stop_after) for stop_after in (None, 3))
    return Done(
        control.rank, fine, bad, gathered, told, means, nothing, whole, cut, wait(rank, control)
    )


def count_batches(rank: int, control: Control, stop_after: int | None) -> int:
    """Return how many of its batches a rank saw: negative where it was stopped on the way.

    They meet after each batch, and have 2, 7 and 40 of them; rank 0 hears of a stop while it waits
    for the others.
    """
    asked, seen, seconds = 0, 0, 0.0

    def wants_stop() -> bool:
        nonlocal asked
        asked += 1
        return rank == 0 and stop_after is not None and asked > stop_after

    def clock() -> float:
        nonlocal seconds
        seconds += 10.0
        return seconds

    try:
        for _ in until_stopped(range((2, 7, 40)[rank]), control, wants_stop, clock):
            seen += 1
    except EvaluationStoppedError:
        return -seen
    return seen


def wait(rank: int, control: Control) -> list[int]:
    """Return how many of its 4, 2 and 3 batches a rank saw where rank 0 waits for each of its.

    By time and in step; then the same where rank 0 hears of a stop at its fifth wait for rows.
    """
    waits = 0

    def batches() -> Iterator[tuple[int, int]]:
        nonlocal waits
        for number in range((4, 2, 3)[rank]):
            for _ in range(3 if rank == 0 else 0):
                waits += 1
                meet_waiting(control, wants_stop)
            yield number, 1

    def wants_stop() -> bool:
        return waits >= stops_at

    def count(batches: Iterator[tuple[int, int]]) -> int:
        nonlocal waits
        seen = waits = 0
        with contextlib.suppress(EvaluationStoppedError):
            for _ in batches:
                seen += 1
        return seen

    seen = []
    for stops_at in (100, 5):  # noqa: B007 - `wants_stop` looks at it
        seen.append(count(until_stopped(batches(), control, wants_stop)))
        seen.append(count(in_step(batches(), control, wants_stop, lambda _: None)))
    return seen


def evaluate(rank: int, control: Control) -> tuple[dict[str, float], dict[str, float]]:
    """Score rows 0..10 in batches of 2 with a module whose statistics differ on each rank."""
    module = nn.BatchNorm1d(1, affine=False).eval()
    assert module.running_mean is not None
    module.running_mean.fill_(100.0 * rank + 1)
    same_buffers(module)

    def batches() -> Iterator[tuple[dict[str, Tensor], int]]:
        start, stop = ROWS[rank]
        for first in range(start, stop, 2):
            rows = torch.arange(first, min(first + 2, stop), dtype=torch.float64).unsqueeze(1)
            yield {"x": rows}, len(rows)
        yield {"x": torch.empty(0, 1)}, 0

    def score(scored: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        centred = scored.double()(batch["x"]).squeeze(1)
        return {"centred": centred, "count": torch.ones(len(centred))}

    means = exact_means(batches(), score, module, control)
    none: list[tuple[dict[str, Tensor], int]] = []
    return means, exact_means(none if rank else list(batches()), score, module, control)
