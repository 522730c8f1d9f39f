"""Columns of a batch by their name."""

from collections.abc import Mapping

from torch import Tensor


def pick(batch: Mapping[str, Tensor], column: str) -> Tensor:
    """Return a column.

    Raises:
        ValueError: naming the columns there are.
    """
    if column not in batch:
        raise ValueError(
            f'there is no column "{column}" in the batch, only {", ".join(batch)}; '
            "trainshed.transforms:rename gives a column another name"
        )
    return batch[column]
