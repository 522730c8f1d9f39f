"""Runs a function on several ranks of a gloo group, without Ray."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch.distributed as dist

from tests.app.checkpoint.beside import forkserver

Result = TypeVar("Result")


def on_ranks(
    ranks: int, folder: Path, function: Callable[[int], Result], within_seconds: float = 180
) -> list[Result]:
    """Return what the function, of a module, returns on each rank; `folder` is a meeting place."""
    with forkserver().Pool(ranks) as pool:
        meeting = str(folder / "meeting")
        work = [pool.apply_async(_run, (rank, ranks, meeting, function)) for rank in range(ranks)]
        return [done.get(timeout=within_seconds) for done in work]


def _run(rank: int, ranks: int, meeting: str, function: Callable[[int], Result]) -> Result:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    try:
        return function(rank)
    finally:
        dist.destroy_process_group()
