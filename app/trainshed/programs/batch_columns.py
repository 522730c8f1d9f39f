"""Columns of a batch by their name."""

from collections.abc import Mapping

from torch import Tensor

from trainshed_api.errors import no_column


def pick(batch: Mapping[str, Tensor], column: str) -> Tensor:
    """Return a column.

    Raises:
        ValueError: naming the columns there are.
    """
    if column not in batch:
        raise ValueError(
            f"{no_column(column, batch)}. The transform trainshed.transforms:rename gives a column "
            "another name."
        )
    return batch[column]
