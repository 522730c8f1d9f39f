"""A function that a TrainingRun names for its rows. Pure: nothing is imported or called here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainshed_api.transforms import BatchFormat, FunctionSpec, TransformKind, TransformSpec

# A filter removes rows, and the result of a group is known to its function only.
_CHANGE_ROWS = ("filter", "groups")
# Our functions return a row for each that they get, except this one.
_OURS, _WINDOWS = "trainshed.transforms:", "trainshed.transforms:windows"


@dataclass(frozen=True)
class Function:
    """A function that a TrainingRun names, and how to call it.

    Args:
        use: `module:function`.
        field: the spec's field that names it, for errors.
        kind: `batches` gets columns, `rows` one row as a dict, `filter` columns and returns which
            rows to keep, `groups` the columns of each group.
        options: keyword arguments, as sorted pairs.
        batch_size: maximum rows per call; None for all rows of the table.
        init: keyword arguments of the constructor of a class, as sorted pairs.
        batch_format: type of the argument with columns.
        by: columns whose values make a group.
        order_by: columns that sort the rows of a group.
        types: of numeric columns that it returns, from the first rows of several files; other types
            are converted to them.
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
        """Return whether its kind may remove or add rows."""
        return self.kind in _CHANGE_ROWS

    @property
    def keeps_rows(self) -> bool:
        """Return whether it surely returns as many rows as it gets: a sample proves nothing."""
        is_ours = self.use.startswith(_OURS) and self.use != _WINDOWS
        return self.kind == "rows" or (self.kind == "batches" and is_ours)

    def beside(self, name: str) -> str:
        """Return the path of another field of the same object of the spec, for errors."""
        return f"{self.field.removesuffix('use')}{name}"


def function_of(spec: FunctionSpec | TransformSpec, field: str) -> Function:
    """Return the function of an object of the spec; field: the object's."""
    named = dict(spec)
    for arguments in ("options", "init"):
        named[arguments] = tuple(sorted(named[arguments].items()))
    return Function(field=f"{field}.use", **named)


def with_types(
    functions: Sequence[Function], types: tuple[tuple[str, str], ...]
) -> tuple[Function, ...]:
    """Return functions with output types for the last one that returns columns."""
    last = max((place for place, each in enumerate(functions) if each.kind != "filter"), default=-1)
    return tuple(
        replace(each, types=types) if place == last else each
        for place, each in enumerate(functions)
    )


def are_grouped(functions: Iterable[Function]) -> bool:
    """Return whether one of the functions needs the rows of all files together."""
    return any(function.kind == "groups" for function in functions)


def most_asked(functions: Iterable[Function]) -> int:
    """Return the largest batch size that a function requests; 1 if none does."""
    return max((function.batch_size or 1 for function in functions), default=1)
