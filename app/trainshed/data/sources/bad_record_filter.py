"""Removes bad records from a fragment's rows, and reports them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.apply_functions import transform_good
from trainshed.data.sources.column_arrays import num_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.data.sampler.bad_records import BadRecordList, Tell
    from trainshed.data.sampler.function import Function
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.filters import Numbered

# Records per report: a limit should be reached soon, but not by one call per record.
_AT_ONCE = 100


class _LeftOut:
    """The bad records of a fragment, reported in groups."""

    def __init__(self, told: BadRecordList, tell: Tell) -> None:
        self._told = told
        self._tell = tell
        self._untold: list[BadRecord] = []

    def add(self, record: BadRecord) -> None:
        self._untold.append(record)
        if len(self._untold) >= _AT_ONCE:
            self.tell()

    def tell(self) -> None:
        if self._untold:
            self._told, self._untold = self._told.after(self._untold), []
            self._tell(self._told)


def good_rows(
    found: Iterable[Numbered | BadRecord],
    functions: Sequence[Function],
    place: Callable[[int], tuple[str, str]],
    told: BadRecordList,
    tell: Tell,
) -> Iterator[Columns]:
    """Yield the good rows of a fragment after the transforms, once its bad ones were reported.

    Args:
        found: rows and bad records, from the fragment's beginning on.
        functions: the transforms.
        place: returns the file of a row by its number, and its position there.
        told: an empty report of the fragment.
        tell: called with all bad records so far: before later rows are used, and often where there
            are many.

    Raises:
        DataError: if `tell` finds that the limit is exceeded.
    """
    left_out = _LeftOut(told, tell)

    def leave_out(numbers: Indices, row: int, reason: str) -> None:
        left_out.add(BadRecord(*place(int(numbers[row])), reason))

    for each in found:
        if isinstance(each, BadRecord):
            left_out.add(each)
            continue
        table, numbers = each
        if not num_rows(table):  # none is selected
            continue
        columns = transform_good(table, functions, partial(leave_out, numbers))
        if num_rows(columns):
            left_out.tell()
            yield columns
    left_out.tell()
