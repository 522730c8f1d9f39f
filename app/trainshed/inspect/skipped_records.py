"""Bad records of an input: skipped, counted and limited as in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.sampler.bad_records import BadRecordLog
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from trainshed.data.sampler.bad_records import BadRecordList


class SkippedRecords:
    """Collects bad records; a fragment that is read twice counts once.

    Args:
        field: of the dataset.
        limit: maximum number of skipped rows.
        likely_rows: estimated number of rows.
    """

    def __init__(self, field: str, limit: int, likely_rows: int) -> None:
        self._field, self._limit, self._likely_rows = field, limit, likely_rows
        self._bad_record_log = BadRecordLog(field, limit, likely_rows)

    def __call__(self, told: BadRecordList) -> None:
        """Add the bad records of a fragment.

        Raises:
            DataError: if the limit is exceeded.
        """
        self._bad_record_log.take(told)
        if excess := self._bad_record_log.excess:
            raise DataError(excess)

    def anew(self) -> SkippedRecords:
        """Return an empty one for another process."""
        return SkippedRecords(self._field, self._limit, self._likely_rows)

    def say(self) -> str | None:
        """Return the number of skipped rows and the first of them; None if there are none."""
        if not self._bad_record_log.rows:
            return None
        return (
            f"{self._field}: {self._bad_record_log.rows} rows that cannot be used are left out "
            f"(onBadRecord: skip). The first: {self._bad_record_log.first[0].say()}"
        )
