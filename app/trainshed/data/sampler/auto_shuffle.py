"""Chooses the shuffle of a dataset that trains and names no mode.

Pure. It depends on the files, their first rows and the dataset's spec alone: another machine, or
another number of workers, chooses the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.sizes import megabytes
from trainshed_api.data import LOCAL_BUFFER, ShuffleSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.sizes import Measured, Size
    from trainshed_api.data import ShuffleMode
    from trainshed_api.v1alpha1 import DatasetSpec

# Bytes of rows that are shuffled at once: all of a dataset, or a buffer of a larger one.
SHUFFLED_BYTES = 256 * 2**20
# More rows in a buffer cost seconds of sorting before its first batch.
MOST_BUFFER_ROWS = 1_000_000


def choose_shuffle(
    spec: DatasetSpec, measured: Measured | None, size: Size | None
) -> tuple[ShuffleSpec, str]:
    """Return the shuffle for mode `auto` of a dataset whose batches are the steps, and why.

    Args:
        spec: of the dataset.
        measured: results of a sample of its rows; None if only running a function tells.
        size: of all transformed rows; None as above.
    """
    if (buffer_size := spec.shuffle.buffer_size) != LOCAL_BUFFER:
        return _in_mode("none", buffer_size), "bufferSize is set"
    if measured is None or size is None:
        return _in_mode("none"), "only its function knows how many rows there are"
    said = f"{megabytes(size.most)} of rows"
    if (
        size.most <= SHUFFLED_BYTES
        and spec.cache in ("auto", "objects")
        and not spec.rows_per_epoch
    ):
        return _in_mode("global"), f"at most {said}"
    rows = max(2, int(SHUFFLED_BYTES / max(measured.row_bytes, *measured.elsewhere, 1.0)))
    if not measured.num_sorted_labels or spec.cache == "workers":
        return _in_mode("local", min(rows, LOCAL_BUFFER)), f"at most {said}"
    buffer = min(rows, MOST_BUFFER_ROWS)
    # Exactly the default means no buffer in this mode.
    return _in_mode("blocks", buffer + (buffer == LOCAL_BUFFER)), f"{said}, sorted by label"


def _in_mode(mode: ShuffleMode, buffer_size: int = LOCAL_BUFFER) -> ShuffleSpec:
    return ShuffleSpec(mode=mode, buffer_size=buffer_size)


def num_sorted_labels(places: Sequence[NDArray[np.generic]]) -> int:
    """Return the labels seen if the rows are sorted by them, or grouped; 0 if they are not.

    places: labels of consecutive rows at several places, in the order of the files.
    """
    if any(labels.ndim != 1 for labels in places):
        return 0
    places = [labels.astype(str) if labels.dtype == object else labels for labels in places]
    seen = np.concatenate(places) if places else np.empty(0)
    values = np.unique(seen)
    is_grouped = all(len(np.unique(labels)) == 1 for labels in places)
    is_sorted = bool((seen[1:] >= seen[:-1]).all() or (seen[1:] <= seen[:-1]).all())
    return len(values) if len(values) > 1 and (is_grouped or is_sorted) else 0
