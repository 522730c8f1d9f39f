"""Transforms of the loaders' benchmark: a process that reads imports this file and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.plain.case import work

if TYPE_CHECKING:
    from trainshed.transforms.batch_checks import Batch


def worked(batch: Batch, *, column: str, rounds: int) -> Batch:
    """Return a batch after the work on a column."""
    return {**batch, column: work(batch[column], rounds)}


def stacked(batch: Batch) -> Batch:
    """Return `x` (rows, columns) of all columns but the label."""
    columns = [batch[name] for name in batch if name != "y"]
    x = np.stack(columns, axis=1, dtype=np.float32, casting="same_kind")
    return {"x": x, "y": batch["y"]}
