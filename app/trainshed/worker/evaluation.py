"""Exact evaluation: every row once, float64 sums and integer counts, on any number of ranks."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import torch
import torch.distributed as dist

from trainshed.worker.device_reads import fetch

if TYPE_CHECKING:
    from trainshed.worker.step_sync import Control

B = TypeVar("B")
Number: TypeAlias = torch.Tensor | float
# By name a value for each row, or a sum and its count.
Scores: TypeAlias = Mapping[str, torch.Tensor | tuple[Number, Number]]
# Returns scores for the module's input: tensors by column, or a collated batch.
Score = Callable[[torch.nn.Module, B], Scores]

# Seconds between meetings. Ranks wait there for the slowest batch, and a stop must fit the grace
# period.
SECONDS_BETWEEN_MEETINGS = 2.0


def same_buffers(module: torch.nn.Module) -> None:
    """Broadcast rank 0's buffers: running statistics differ after the last step."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


class EvaluationStoppedError(Exception):
    """The run was asked to stop before an evaluation had read all rows; on all ranks alike."""


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Set a module to eval mode, then restore the mode of each part: a frozen one stays frozen."""
    were = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in were:
            part.training = was_training


def until_stopped(
    batches: Iterable[B],
    control: Control,
    wants_stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[B]:
    """Yield the batches of this rank, and learn of a stop that rank 0 received.

    Ranks may have different numbers of batches, so they meet by time: a rank that finishes early
    continues to meet the others until all have finished.

    Args:
        control: of the ranks.
        wants_stop: returns whether this rank received a stop.
        clock: monotonic seconds.

    Raises:
        EvaluationStoppedError: at the same meeting on all ranks.
    """
    last_met = clock()
    for batch in batches:
        yield batch
        if clock() - last_met >= SECONDS_BETWEEN_MEETINGS:
            _meet(control, wants_stop, is_through=False)
            last_met = clock()
    while not _meet(control, wants_stop, is_through=True):
        pass


def in_step(
    batches: Iterable[tuple[B, int]],
    control: Control,
    wants_stop: Callable[[], bool],
    keep_company: Callable[[B], object],
) -> Iterator[tuple[B, int]]:
    """Yield the batches of this rank with rows, with equally many forward passes on each rank.

    For a sharded module, whose forward pass is a collective. A rank that finishes early repeats
    its last batch until all have finished.

    Args:
        batches: (input, rows) of this rank.
        control: of the ranks.
        wants_stop: returns whether this rank received a stop.
        keep_company: runs the forward pass of a batch for the others.

    Raises:
        EvaluationStoppedError: at the same batch on all ranks.
        ValueError: on all ranks if one has no row at all.
    """
    there = ((given, rows) for given, rows in batches if rows)
    last: tuple[B, int] | None = None
    while True:
        batch = next(there, None)
        if _meet(control, wants_stop, is_through=batch is None):
            return
        if last is None:
            _check_rows(control, batch is not None)
        if batch is not None:
            last = batch
            yield batch
        elif last is not None:
            keep_company(last[0])


def _check_rows(control: Control, has_rows: bool) -> None:
    lacking = torch.tensor([int(not has_rows)], dtype=torch.int64)
    control.sum(lacking)
    if int(lacking):
        raise ValueError(
            f"evaluate: {int(lacking)} workers have no row of the dataset, and FSDP needs one on "
            "each: use a dataset with more rows, or fewer workers"
        )


def _meet(control: Control, wants_stop: Callable[[], bool], *, is_through: bool) -> bool:
    """Return whether all ranks have finished, once none waits for rows. A collective."""
    num_waiting = 1
    while num_waiting:
        under_way, num_waiting = _meet_once(control, wants_stop, int(not is_through), 0)
    return not under_way


def meet_waiting(control: Control, wants_stop: Callable[[], bool]) -> None:
    """Meet the other ranks while this one waits for rows. A collective.

    Raises:
        EvaluationStoppedError: at the same meeting on all ranks.
    """
    _meet_once(control, wants_stop, 1, 1)


def _meet_once(
    control: Control, wants_stop: Callable[[], bool], under_way: int, waits: int
) -> tuple[int, int]:
    """Return the number of ranks in progress, and of those that wait for rows. A collective."""
    # numbers has shape (3,)
    numbers = torch.tensor([under_way, waits, int(wants_stop())], dtype=torch.int64)
    control.sum(numbers)
    num_under_way, num_waiting, stops = numbers.tolist()
    if num_under_way and stops:
        raise EvaluationStoppedError
    return num_under_way, num_waiting


def exact_means(
    batches: Iterable[tuple[B, int]],
    score: Score[B],
    module: torch.nn.Module,
    control: Control,
) -> dict[str, float]:
    """Return the mean of each score over all rows of all ranks. A collective.

    Args:
        batches: (input, rows) of this rank; those without rows are skipped.
        score: returns for each name a value per row, shape (rows,), or (sum, count).
        module: without DDP, as ranks may have different numbers of batches; FSDP stays.
        control: of the ranks.

    Raises:
        ValueError: if a score has another shape, if batches or ranks have different names, if a
            count is negative or 0 in all, or if there is no row at all.
    """
    # By name the sum and the count, shape (2,).
    totals: dict[str, torch.Tensor] = {}
    num_rows = 0
    for given, rows in batches:
        if not rows:
            continue
        scores = score(module, given)
        if num_rows and scores.keys() != totals.keys():
            raise _other_names(list(totals), list(scores))
        num_rows += rows
        for name, value in scores.items():
            total = _total(name, value, rows)
            totals[name] = totals[name] + total if name in totals else total
    counts = torch.tensor([num_rows], dtype=torch.int64)
    control.sum(counts)
    if not int(counts):
        raise ValueError("evaluate: the dataset has no rows")
    names = _common_names(control, list(totals), has_rows=bool(num_rows))
    here = _brought(totals)
    # sums has shape (names, 2)
    sums = torch.tensor([here.get(name, (0.0, 0.0)) for name in names], dtype=torch.float64)
    control.sum(sums)
    return {
        name: _mean(name, total, count)
        for name, (total, count) in zip(names, sums.tolist(), strict=True)
    }


def _total(name: str, value: torch.Tensor | tuple[Number, Number], rows: int) -> torch.Tensor:
    """Return sum and count of a batch's score, shape (2,), on the score's device."""
    if isinstance(value, torch.Tensor):
        if value.shape != (rows,):
            raise ValueError(
                f"evaluate: {name} has shape {tuple(value.shape)}; expected ({rows},): one a row; "
                "or give (sum, count)"
            )
        value = value.detach().to(torch.float64).sum(), rows
    try:
        both = [torch.as_tensor(number, dtype=torch.float64).reshape(()) for number in value]
        total, count = both
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(
            f"evaluate: {name} is neither a tensor nor a sum and a count; expected a value for "
            "each row, or (sum, count), a single number each."
        ) from None
    device = total.device if count.is_cpu else count.device
    return torch.stack([total.detach().to(device), count.detach().to(device)])


def _mean(name: str, total: float, count: float) -> float:
    if not count > 0:
        raise ValueError(
            f"evaluate: {name} has the count {count:g} over the whole dataset; expected more than "
            "0. Count what the sum is of."
        )
    return total / count


def _brought(totals: Mapping[str, torch.Tensor]) -> dict[str, tuple[float, float]]:
    """Return the sums and counts; waits for each device once."""
    by_device: dict[torch.device, list[str]] = {}
    for name, total in totals.items():
        by_device.setdefault(total.device, []).append(name)
    coming = [
        (names, fetch(torch.cat([totals[name] for name in names]))) for names in by_device.values()
    ]
    found: dict[str, tuple[float, float]] = {}
    for names, fetched in coming:
        numbers = fetched.values()
        found.update(zip(names, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    return found


def _common_names(control: Control, names: list[str], *, has_rows: bool) -> list[str]:
    """Return the score names of all ranks that had rows. A collective.

    Raises:
        ValueError: on all ranks if they differ.
    """
    found = [json.loads(text) for text in control.exchange(json.dumps(names if has_rows else None))]
    common, *others = [names for names in found if names is not None]
    for other in others:
        if sorted(other) != sorted(common):
            raise _other_names(common, other)
    return list(common)


def _other_names(before: list[str], now: list[str]) -> ValueError:
    return ValueError(
        f"evaluate: got the scores {', '.join(sorted(now)) or 'none'} after "
        f"{', '.join(sorted(before)) or 'none'}; expected the same names for every batch. Give "
        "(0, 0) for a score that a batch has nothing of."
    )
