"""Cuts sequences of rows into windows, one row per window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trainshed.transforms.batch_checks import as_count, as_names, as_one_of, get_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.transforms.batch_checks import Batch

_RESTS = ("drop", "pad")


def windows(
    batch: Batch,
    *,
    length: int,
    columns: Sequence[str],
    stride: int | None = None,
    rest: str = "drop",
    mask: str | None = None,
) -> Batch:
    """Cut the rows of a group into windows.

    Args:
        batch: the rows, in their order.
        length: rows of a window.
        columns: become (windows, length, ...); all others have the value of a window's last row.
        stride: rows from the start of a window to the next; default `length`.
        rest: `drop` leaves out last rows that fill no window, `pad` fills a window with zeros.
        mask: a column to add, (windows, length): True for rows, False for padding.
    """
    length = as_count("windows", "length", length)
    stride = length if stride is None else as_count("windows", "stride", stride)
    is_padded = as_one_of("windows", "rest", rest, _RESTS) == "pad"
    if mask in batch:
        raise ValueError(f'windows: mask is "{mask}", that column is there already')
    names = as_names("windows", "columns", columns)
    chosen = {name: get_column(batch, name, "windows") for name in names}
    rows = len(next(iter(chosen.values())))
    count = _num_windows(rows, length, stride, is_padded=is_padded)
    # places has shape (windows, length)
    places = np.arange(count)[:, None] * stride + np.arange(length)
    is_row, places = places < rows, np.minimum(places, rows - 1)
    made: Batch = {name: values[places[:, -1]] for name, values in batch.items()}
    for name, values in chosen.items():
        made[name] = values[places]
        if not is_row.all():
            if values.dtype == object:
                raise ValueError(f'windows: column "{name}" holds no numbers, rest must be drop')
            made[name][~is_row] = np.zeros((), values.dtype)
    return made if mask is None else {**made, mask: is_row}


def _num_windows(rows: int, length: int, stride: int, *, is_padded: bool) -> int:
    if not is_padded:
        return max(0, (rows - length) // stride + 1)
    # Enough windows to cover every row, unless strides skip some; each has at least one row.
    return min(max(1, math.ceil((rows - length) / stride) + 1), math.ceil(rows / stride))
