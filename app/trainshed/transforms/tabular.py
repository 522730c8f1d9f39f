"""Transforms of any column: normalize numbers, rename columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainshed.transforms.batch_checks import get_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.transforms.batch_checks import Batch


def normalize(
    batch: Batch,
    *,
    column: str,
    mean: float | Sequence[float],
    std: float | Sequence[float],
) -> Batch:
    """Replace a column by (column - mean) / std as float32.

    Args:
        batch: columns of equal length.
        column: the column to scale.
        mean: one number, or one for each entry of the column's last axis.
        std: like `mean`, larger than 0.
    """
    values = get_column(batch, column, "normalize")
    if values.dtype.kind not in "iuf":
        raise ValueError(f'normalize: column "{column}" holds {values.dtype}, must hold numbers')
    means, stds = np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)
    if not (stds > 0).all():
        raise ValueError(f"normalize: std is {std}, must be larger than 0")
    for name, numbers in (("mean", means), ("std", stds)):
        if numbers.ndim > 1 or (numbers.ndim == 1 and numbers.shape != values.shape[-1:]):
            raise ValueError(
                f'normalize: {name} has {numbers.size} numbers, column "{column}" of shape '
                f"{values.shape} takes one or {values.shape[-1]}"
            )
    with np.errstate(over="ignore"):
        scaled = values.astype(np.float32)
        scaled -= means
        scaled /= stds
    if not np.isfinite(scaled).all() and (wrong := np.isinf(scaled) & np.isfinite(values)).any():
        raise ValueError(
            f'normalize: got {values[wrong][0]} in column "{column}"; expected numbers that '
            "float32 holds, scaled too. Clip them, or leave their rows out, by a transform"
        )
    return {**batch, column: scaled}


def rename(batch: Batch, *, columns: Mapping[str, str]) -> Batch:
    """Rename columns, e.g. `{img: image}`."""
    for old, new in columns.items():
        get_column(batch, old, "rename")
        if new in batch and new not in columns:
            raise ValueError(f'rename: "{old}" cannot become "{new}", that column is there already')
    return {columns.get(name, name): values for name, values in batch.items()}
