"""Bad records: which they are, and how many. Pure.

Every reader of a fragment finds the same bad records in the same order. So each report is a prefix
of one list, and the longer of two reports counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

# Maximum number of records per dataset that are reported with file, position and reason.
FIRST = 20
# Maximum characters of a record in a status; a reason may quote the record.
MOST_SAID = 500
_MOST_REASON, _MOST_PLACE = 300, 80
# Maximum characters of a record in an error of one line.
_SAID = 3


@dataclass(frozen=True)
class BadRecord:
    """A record of a file that cannot be decoded, or whose rows a transform raised on.

    Args:
        path: the file.
        place: position in the file, such as `byte 1204`.
        reason: why it is bad.
        rows: number of rows that are skipped for it.
    """

    path: str
    place: str
    reason: str
    rows: int = 1

    def say(self) -> str:
        """Return the record's error on one line, with control characters escaped.

        It has at most MOST_SAID characters: a long path is cut at its start.
        """
        place, reason = _begin(self.place, _MOST_PLACE), _begin(self.reason, _MOST_REASON)
        path = _shown(self.path)
        most = MOST_SAID - len(f": {place}: {reason}")
        if len(path) > most:
            path = f"...{path[3 - most :]}"
        return f"{path}: {place}: {reason}"


def _begin(text: str, most: int) -> str:
    """Return the beginning of a text on one line."""
    line = _shown(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _shown(text: str) -> str:
    """Return a text with unprintable and control characters escaped."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


@dataclass(frozen=True)
class BadRecordList:
    """A reader's report of the bad records of a fragment: a prefix of their list.

    Args:
        field: of the dataset.
        fragment: its file, where it starts there, and the number of rows before it.
        rows: skipped so far.
        first: the first records, at most FIRST.
    """

    field: str
    fragment: tuple[str, int, int]
    rows: int = 0
    first: tuple[BadRecord, ...] = ()

    def after(self, more: Iterable[BadRecord]) -> BadRecordList:
        """Return the report with one more record."""
        found = tuple(more)
        rows = self.rows + sum(record.rows for record in found)
        return replace(self, rows=rows, first=(*self.first, *found)[:FIRST])


Tell = Callable[[BadRecordList], None]


class BadRecordLog:
    """The bad records of one dataset, from the reports of all readers.

    Args:
        field: of the dataset.
        limit: maximum number of skipped rows.
        likely_rows: estimated number of rows of the dataset.
    """

    def __init__(self, field: str, limit: int, likely_rows: int | None) -> None:
        self._field = field
        self._limit = limit
        self._likely_rows = likely_rows
        self._by_fragment: dict[tuple[str, int, int], int] = {}
        # Skipped rows, each counted once.
        self.rows = 0
        self._first: dict[tuple[str, str], BadRecord] = {}

    @property
    def first(self) -> tuple[BadRecord, ...]:
        """Return the records that were reported first, at most FIRST."""
        return tuple(self._first.values())

    def take(self, told: BadRecordList) -> bool:
        """Add a report; return whether it has more than was known."""
        new = told.rows - self._by_fragment.get(told.fragment, 0)
        if new <= 0:
            return False
        # Updated by difference: there may be as many fragments as calls.
        self._by_fragment[told.fragment] = told.rows
        self.rows += new
        for record in told.first:
            if len(self._first) < FIRST:
                self._first.setdefault((record.path, record.place), record)
        return True

    @property
    def excess(self) -> str | None:
        """Return the error if more rows are skipped than allowed."""
        if self.rows <= self._limit:
            return None
        of = f" of about {self._likely_rows}" if self._likely_rows else ""
        said = "; ".join(record.say() for record in self.first[:_SAID])
        return (
            f"{self._field}: {self.rows} rows{of} are bad, more than its badRecordLimit of "
            f"{self._limit}: correct or remove them, or raise the limit. The first: {said}"
        )
