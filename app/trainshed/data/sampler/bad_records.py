"""Records that cannot be used: which they are, and how many. Pure.

A fragment is read from its beginning whoever reads it, and what is bad in it is bad each time: so
what is told of it is the beginning of one list, and of two that are told the longer one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

# Of a dataset, told with file, place and reason.
FIRST = 20
# A status has room for so much of each; a reason may hold the record itself.
MOST_SAID = 500
_MOST_REASON, _MOST_PLACE = 300, 80
# In an error that is one line.
_SAID = 3


@dataclass(frozen=True)
class BadRecord:
    """A record of a file that cannot be decoded, or whose rows a transform raised on.

    Args:
        path: the file.
        place: where in it, such as `byte 1204`.
        reason: why it cannot be used.
        rows: how many are left out for it.
    """

    path: str
    place: str
    reason: str
    rows: int = 1

    def say(self) -> str:
        """Return what is wrong where, on one line that a terminal shows as it is.

        It has at most MOST_SAID characters: of a long path the end is told.
        """
        place, reason = _begin(self.place, _MOST_PLACE), _begin(self.reason, _MOST_REASON)
        path = _shown(self.path)
        room = MOST_SAID - len(f": {place}: {reason}")
        if len(path) > room:
            path = f"...{path[3 - room :]}"
        return f"{path}: {place}: {reason}"


def _begin(text: str, most: int) -> str:
    """Return the beginning of a text on one line."""
    line = _shown(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _shown(text: str) -> str:
    """Return a text in which what no terminal shows, or would obey, is written as in a program."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


@dataclass(frozen=True)
class BadRecordList:
    """What somebody who reads a fragment knows of its bad records: the beginning of their list.

    Args:
        field: of the dataset.
        fragment: its file, where in that it begins, and how many rows come before it there.
        rows: that are left out, so far.
        first: of the records; no more than FIRST.
    """

    field: str
    fragment: tuple[str, int, int]
    rows: int = 0
    first: tuple[BadRecord, ...] = ()

    def after(self, more: Iterable[BadRecord]) -> BadRecordList:
        """Return the same with what comes next."""
        found = tuple(more)
        rows = self.rows + sum(record.rows for record in found)
        return replace(self, rows=rows, first=(*self.first, *found)[:FIRST])


Tell = Callable[[BadRecordList], None]


class BadRecordLog:
    """The bad records of one dataset, as all who read it tell of them.

    Args:
        field: of the dataset.
        limit: most rows that may be left out.
        likely_rows: about how many rows the dataset has.
    """

    def __init__(self, field: str, limit: int, likely_rows: int | None) -> None:
        self._field = field
        self._limit = limit
        self._likely_rows = likely_rows
        self._rows: dict[tuple[str, int, int], int] = {}
        self._all_rows = 0
        self._first: dict[tuple[str, str], BadRecord] = {}

    @property
    def rows(self) -> int:
        """Return how many rows are left out, each counted once."""
        return self._all_rows

    @property
    def first(self) -> tuple[BadRecord, ...]:
        """Return the records that were told of first, no more than FIRST."""
        return tuple(self._first.values())

    def take(self, told: BadRecordList) -> bool:
        """Take in what is known of a fragment; say whether it is more than was known."""
        new = told.rows - self._rows.get(told.fragment, 0)
        if new <= 0:
            return False
        # Not added up anew each time: there may be as many fragments as there are calls.
        self._rows[told.fragment] = told.rows
        self._all_rows += new
        for record in told.first:
            if len(self._first) < FIRST:
                self._first.setdefault((record.path, record.place), record)
        return True

    @property
    def excess(self) -> str | None:
        """Return what is wrong where more rows are left out than may be."""
        if self.rows <= self._limit:
            return None
        of = f" of about {self._likely_rows}" if self._likely_rows else ""
        said = "; ".join(record.say() for record in self.first[:_SAID])
        return (
            f"{self._field}: {self.rows} rows{of} cannot be used, more than its badRecordLimit of "
            f"{self._limit}: mend them or take them away, or allow more. The first: {said}"
        )
