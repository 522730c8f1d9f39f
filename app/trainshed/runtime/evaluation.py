"""Exact evaluation: every row once, sums in float64, counts as integers, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from trainshed.runtime.control import Control

Tensors = dict[str, torch.Tensor]
Score = Callable[[torch.nn.Module, Tensors], Mapping[str, torch.Tensor]]


def same_buffers(module: torch.nn.Module) -> None:
    """Give every rank rank 0's buffers: running statistics differ once the last step is over."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def exact_means(
    batches: Iterable[tuple[Tensors, int]],
    score: Score,
    module: torch.nn.Module,
    control: Control,
) -> dict[str, float]:
    """Return the mean of each score over all rows of all ranks.

    Args:
        batches: (tensors, rows) of this rank; those without rows are skipped.
        score: gives a value for each row, shape (rows,).
        module: without DDP around it: ranks may have different numbers of batches.
        control: of the ranks.

    Raises:
        ValueError: when a score does not have one value a row, or there is no row at all.
    """
    sums: dict[str, torch.Tensor] = {}
    count = 0
    for tensors, rows in batches:
        if not rows:
            continue
        count += rows
        for name, values in score(module, tensors).items():
            if values.shape != (rows,):
                raise ValueError(
                    f"evaluate: {name} has shape {tuple(values.shape)}, want ({rows},): one a row"
                )
            total = values.detach().to(torch.float64).sum().cpu()
            sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + total
    names = _leader_names(control, list(sums))
    counts = torch.tensor([count], dtype=torch.int64)
    control.sum(counts)
    if not int(counts):
        raise ValueError("evaluate: the dataset has no rows")
    # totals has shape (names,)
    totals = torch.stack([sums.get(name, torch.zeros((), dtype=torch.float64)) for name in names])
    control.sum(totals)
    return {name: float(total) / int(counts) for name, total in zip(names, totals, strict=True)}


def _leader_names(control: Control, names: list[str]) -> list[str]:
    """Return rank 0's names: another rank may have had no row to learn them from."""
    text = ",".join(names).encode()
    # encoded has shape (bytes,)
    encoded = torch.zeros(control.from_leader(len(text)), dtype=torch.uint8)
    if control.leads and text:
        encoded.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    control.sum(encoded)
    return bytes(encoded.tolist()).decode().split(",") if len(encoded) else []
