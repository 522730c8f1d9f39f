"""Exact evaluation: every row once, sums in float64, counts as integers, on any number of ranks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist

from trainshed.worker.fetch import fetch

if TYPE_CHECKING:
    from trainshed.worker.agreement import Control

B = TypeVar("B")
# Gives a value for each row of what a module is given: tensors by column, or what is made of them.
Score = Callable[[torch.nn.Module, B], Mapping[str, torch.Tensor]]

# Ranks wait there for the slowest batch, and who stops has to hear of it well within its grace.
SECONDS_BETWEEN_MEETINGS = 2.0


def same_buffers(module: torch.nn.Module) -> None:
    """Give every rank rank 0's buffers: running statistics differ once the last step is over."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


class EvaluationStoppedError(Exception):
    """The run was asked to stop before an evaluation had seen all rows; on all ranks alike."""


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Have a module evaluate, then each of its parts as it was: a frozen one stays frozen."""
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
    """Yield the batches of this rank, and hear on the way of a stop that rank 0 heard of.

    Ranks may have different numbers of batches, so they meet by time: who is through goes on to
    meet the others until all are.

    Args:
        control: of the ranks.
        wants_stop: whether this rank heard of a stop.
        clock: seconds that only go on.

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
    """Yield the batches of this rank that have rows, while each rank has as many forward passes.

    For a module that ranks hold in parts: a forward pass of one is one of all. Who is through goes
    on with its last batch until all are.

    Args:
        batches: (what is evaluated, rows) of this rank.
        control: of the ranks.
        wants_stop: whether this rank heard of a stop.
        keep_company: makes the forward pass of a batch, for the others.

    Raises:
        EvaluationStoppedError: at the same batch on all ranks.
        ValueError: on all ranks when one has no row at all.
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
    """Return whether all ranks are through. A collective."""
    # numbers has shape (2,)
    numbers = torch.tensor([int(not is_through), int(wants_stop())], dtype=torch.int64)
    control.sum(numbers)
    under_way, stops = numbers.tolist()
    if under_way and stops:
        raise EvaluationStoppedError
    return not under_way


def exact_means(
    batches: Iterable[tuple[B, int]],
    score: Score[B],
    module: torch.nn.Module,
    control: Control,
) -> dict[str, float]:
    """Return the mean of each score over all rows of all ranks.

    Args:
        batches: (what is evaluated, rows) of this rank; those without rows are skipped.
        score: gives a value for each row, shape (rows,).
        module: without DDP around it: ranks may have different numbers of batches, but for FSDP.
        control: of the ranks.

    Raises:
        ValueError: when a score does not have one value a row, or there is no row at all.
    """
    sums: dict[str, torch.Tensor] = {}
    count = 0
    for given, rows in batches:
        if not rows:
            continue
        count += rows
        for name, values in score(module, given).items():
            if values.shape != (rows,):
                raise ValueError(
                    f"evaluate: {name} has shape {tuple(values.shape)}, want ({rows},): one a row"
                )
            total = values.detach().to(torch.float64).sum()
            sums[name] = sums[name] + total if name in sums else total
    names = _leader_names(control, list(sums))
    counts = torch.tensor([count], dtype=torch.int64)
    control.sum(counts)
    if not int(counts):
        raise ValueError("evaluate: the dataset has no rows")
    here = _brought(sums)
    # totals has shape (names,)
    totals = torch.tensor([here.get(name, 0.0) for name in names], dtype=torch.float64)
    control.sum(totals)
    return {name: float(total) / int(counts) for name, total in zip(names, totals, strict=True)}


def _brought(sums: Mapping[str, torch.Tensor]) -> dict[str, float]:
    """Return the sums; each device that some lie on is waited for once."""
    by_device: dict[torch.device, list[str]] = {}
    for name, total in sums.items():
        by_device.setdefault(total.device, []).append(name)
    coming = [
        (names, fetch(torch.stack([sums[name] for name in names]))) for names in by_device.values()
    ]
    return {
        name: total
        for names, fetched in coming
        for name, total in zip(names, fetched.values(), strict=True)
    }


def _leader_names(control: Control, names: list[str]) -> list[str]:
    """Return rank 0's names: another rank may have had no row to learn them from."""
    text = ",".join(names).encode()
    # encoded has shape (bytes,)
    encoded = torch.zeros(control.from_leader(len(text)), dtype=torch.uint8)
    if control.leads and text:
        encoded.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    control.sum(encoded)
    return bytes(encoded.tolist()).decode().split(",") if len(encoded) else []
