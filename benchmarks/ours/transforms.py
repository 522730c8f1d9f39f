"""Transforms of the loader benchmarks; data tasks import this module, so it imports little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.plain.case import work

if TYPE_CHECKING:
    from trainshed.transforms.batch_checks import Batch


def apply_work(batch: Batch, *, column: str, rounds: int) -> Batch:
    """Return a batch with the work done on a column."""
    return {**batch, column: work(batch[column], rounds)}


def stack_columns(batch: Batch) -> Batch:
    """Return all columns except the label as `x` (rows, columns)."""
    columns = [batch[name] for name in batch if name != "y"]
    x = np.stack(columns, axis=1, dtype=np.float32, casting="same_kind")
    return {"x": x, "y": batch["y"]}
