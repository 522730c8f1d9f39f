"""A table as the program sees it: column name -> array whose first axis is the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The element type is the user's; the first axis is always the row.
Array = NDArray[np.generic]
Columns = dict[str, Array]


def num_rows(columns: Mapping[str, Array]) -> int:
    """Return the rows of a table; 0 when it has no column."""
    return len(next(iter(columns.values()), ()))


def is_text(array: Array) -> bool:
    """Say whether a column holds texts; some may be missing."""
    if array.dtype.kind in "US":
        return True
    if array.dtype != object or array.ndim != 1:
        return False
    return all(value is None or isinstance(value, str) for value in array.tolist())


def say_columns(columns: Mapping[str, Array]) -> str:
    """Return the columns by name, each with the type and shape of a row: x float32[28, 28], ..."""
    said = []
    for name, array in sorted(columns.items()):
        kind = "text" if array.dtype.kind in "US" else str(array.dtype)
        said.append(f"{name} {kind}{list(array.shape[1:]) if array.ndim > 1 else ''}")
    return ", ".join(said)


def nbytes(columns: Mapping[str, Array]) -> int:
    """Return the bytes of a table, those of strings and binaries included."""
    total = 0
    for array in columns.values():
        total += array.nbytes
        if array.dtype == object:
            total += sum(len(value) for value in array if isinstance(value, (bytes, str)))
    return total


def cut_rows(columns: Mapping[str, Array], start: int, stop: int) -> Columns:
    """Return rows [start, stop) as views."""
    return {name: array[start:stop] for name, array in columns.items()}


def take_rows(columns: Mapping[str, Array], chosen: slice | NDArray[np.int64]) -> Columns:
    """Return the rows that are chosen: views for a slice, else copies."""
    return {name: array[chosen] for name, array in columns.items()}


def join(tables: Sequence[Mapping[str, Array]]) -> Columns:
    """Return the tables one below the other; a single one is returned as it is."""
    if len(tables) == 1:
        return dict(tables[0])
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def writable(columns: Mapping[str, Array]) -> Columns:
    """Return the columns as arrays that may be changed; those that may not are copied."""
    return {name: a if a.flags.writeable else a.copy() for name, a in columns.items()}
