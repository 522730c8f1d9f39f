"""Leaves bad records out of what is read of a fragment, and tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.order.bad_records import BadRecord
from trainshed.data.read.apply import transform_good
from trainshed.data.read.columns import num_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.data.order.bad_records import Tell, Told
    from trainshed.data.order.function import Function
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.selecting import Numbered

# Told at once: where all is bad, the limit should be met soon, and not by a call for each.
_AT_ONCE = 100


def good_rows(
    found: Iterable[Numbered | BadRecord],
    functions: Sequence[Function],
    place: Callable[[int], tuple[str, str]],
    told: Told,
    tell: Tell,
) -> Iterator[Columns]:
    """Yield the good rows of a fragment after the transforms, once its bad ones were told.

    Args:
        found: what is read, from the fragment's beginning on.
        functions: the transforms.
        place: returns the file of a row by its number, and where in it.
        told: of the fragment, before anything is.
        tell: called with all that is bad so far, whenever that grew.

    Raises:
        DataError: when more is left out than may be, as `tell` knows.
    """
    bad: list[BadRecord] = []
    for each in found:
        columns: Columns = {}
        if isinstance(each, BadRecord):
            bad.append(each)
        else:
            table, numbers = each
            if not num_rows(table):  # none is chosen
                continue
            columns, failed = transform_good(table, functions)
            for row, reason in failed.items():
                bad.append(BadRecord(*place(int(numbers[row])), reason))
        if bad and (num_rows(columns) or len(bad) >= _AT_ONCE):
            told, bad = told.after(bad), []
            tell(told)
        if num_rows(columns):
            yield columns
    if bad:
        tell(told.after(bad))
