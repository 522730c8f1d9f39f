"""Columns of a batch by their name."""

from collections.abc import Mapping
from typing import TypeVar

from trainshed_api.errors import no_column

Column = TypeVar("Column")


def pick(batch: Mapping[str, Column], column: str) -> Column:
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
