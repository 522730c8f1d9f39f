"""Counts and limits the bad records that all readers of a run report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.sampler.bad_records import BadRecordLog
from trainshed.data.sources.errors import DataError
from trainshed_api.progress import BadRecords, WarningEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed_api.progress import Event


class BadRecordLimits:
    """The bad records of all datasets of a run.

    Args:
        plans: of the datasets.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self._names = {plan.field: plan.name for plan in plans}
        self._ledgers = {
            plan.field: BadRecordLog(plan.field, plan.bad_record_limit, plan.likely_rows)
            for plan in plans
            if plan.bad_record_limit is not None
        }
        # What the last events told: rows, and how many of the first records.
        self._told = dict.fromkeys(self._ledgers, (0, 0))

    def take(self, told: BadRecordList) -> None:
        """Take in what somebody knows of a fragment.

        Raises:
            DataError: when more is left out than may be.
        """
        bad_record_log = self._ledgers[told.field]
        bad_record_log.take(told)
        if excess := bad_record_log.excess:
            raise DataError(excess)

    def events(self, now: float) -> list[Event]:
        """Return what is new since the last call; with the first of a dataset comes a warning."""
        new: list[Event] = []
        for field, bad_record_log in self._ledgers.items():
            rows, records = self._told[field]
            if bad_record_log.rows == rows:
                continue
            first = tuple(record.say() for record in bad_record_log.first)
            self._told[field] = (bad_record_log.rows, len(first))
            if not rows:
                message = (
                    f"{field}: rows that cannot be used are left out (onBadRecord: skip), and "
                    f"counted in the result and the report. The first: {first[0]}"
                )
                new.append(WarningEvent(time=now, message=message))
            name = self._names[field]
            new.append(
                BadRecords(time=now, dataset=name, rows=bad_record_log.rows, first=first[records:])
            )
        return new
