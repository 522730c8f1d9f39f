"""Bad records of an input that are left out, as training leaves them out: counted and limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.sampler.bad_records import BadRecordLog
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from trainshed.data.sampler.bad_records import BadRecordList


class SkippedRecords:
    """Told of what is bad; of a fragment that is read twice it counts once.

    Args:
        field: of the dataset.
        limit: most rows that may be left out.
        likely_rows: about how many rows there are.
    """

    def __init__(self, field: str, limit: int, likely_rows: int) -> None:
        self._field, self._limit, self._likely_rows = field, limit, likely_rows
        self._ledger = BadRecordLog(field, limit, likely_rows)

    def __call__(self, told: BadRecordList) -> None:
        """Take in what is known of a fragment.

        Raises:
            DataError: when more is left out than may be.
        """
        self._ledger.take(told)
        if excess := self._ledger.excess:
            raise DataError(excess)

    def anew(self) -> SkippedRecords:
        """Return one for another process, which knows of nothing yet."""
        return SkippedRecords(self._field, self._limit, self._likely_rows)

    def say(self) -> str | None:
        """Return how many rows are left out, and the first of them; None for none."""
        if not self._ledger.rows:
            return None
        return (
            f"{self._field}: {self._ledger.rows} rows that cannot be used are left out "
            f"(onBadRecord: skip). The first: {self._ledger.first[0].say()}"
        )
