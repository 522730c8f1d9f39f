"""A function that a TrainingRun names for its rows. Pure: nothing is looked up or called here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainshed_api.transforms import BatchFormat, TransformKind

# A filter leaves rows out, and what becomes of a group only its function knows.
_CHANGE_ROWS = ("filter", "groups")


@dataclass(frozen=True)
class Function:
    """A function that a TrainingRun names, and how to call it.

    Args:
        use: `module:function`.
        field: the spec's field that names it, for errors.
        kind: `batches` gets columns, `rows` one row as a dict, `filter` columns and tells which
            rows stay, `groups` the columns of each group.
        options: keyword arguments, as sorted pairs.
        batch_size: most rows a call; None for all rows of the table.
        init: keyword arguments of the constructor of a class, as sorted pairs.
        batch_format: as what it is given columns.
        by: columns whose values make a group.
        order_by: columns that sort the rows of a group.
        types: of columns of numbers that it returns, by the first rows of several files; other
            types are converted to them.
    """

    use: str
    field: str
    kind: TransformKind = "batches"
    options: tuple[tuple[str, object], ...] = ()
    batch_size: int | None = None
    init: tuple[tuple[str, object], ...] = ()
    batch_format: BatchFormat = "numpy"
    by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Return the bare name of the function."""
        return self.use.partition(":")[2]

    @property
    def changes_rows(self) -> bool:
        """Say whether it may leave rows out, or make more of them, by its kind alone."""
        return self.kind in _CHANGE_ROWS

    def beside(self, name: str) -> str:
        """Return another field of the spec beside the one that names it, for errors."""
        return f"{self.field.removesuffix('use')}{name}"


def with_types(
    functions: Sequence[Function], types: tuple[tuple[str, str], ...]
) -> tuple[Function, ...]:
    """Return functions of which the last one that makes columns has types for them."""
    last = max((place for place, each in enumerate(functions) if each.kind != "filter"), default=-1)
    return tuple(
        replace(each, types=types) if place == last else each
        for place, each in enumerate(functions)
    )


def are_grouped(functions: Iterable[Function]) -> bool:
    """Say whether rows of all files go together into one of the functions."""
    return any(function.kind == "groups" for function in functions)


def most_asked(functions: Iterable[Function]) -> int:
    """Return the most rows that one of the functions is to be given at once; 1 where none says."""
    return max((function.batch_size or 1 for function in functions), default=1)
