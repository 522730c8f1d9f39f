"""A function that a TrainingRun names for its rows. Pure: nothing is looked up or called here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Function:
    """A function that a TrainingRun names, and how to call it.

    Args:
        use: `module:function`.
        field: the spec's field that names it, for errors.
        kind: `batches` gets columns, `rows` one row as a dict.
        options: keyword arguments, as sorted pairs.
        batch_size: most rows a call; None for all rows of the table.
    """

    use: str
    field: str
    kind: Literal["batches", "rows"] = "batches"
    options: tuple[tuple[str, object], ...] = ()
    batch_size: int | None = None

    @property
    def name(self) -> str:
        """Return the bare name of the function."""
        return self.use.partition(":")[2]
