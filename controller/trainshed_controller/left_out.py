"""What a status says of rows that are left out of datasets as bad. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.status import BadRecordsStatus

if TYPE_CHECKING:
    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import TrainingRunStatus


def with_bad_records(status: TrainingRunStatus, snapshot: Snapshot) -> TrainingRunStatus:
    """Return the status with rows that are left out: an attempt may read fewer than one before."""
    more = {
        name: BadRecordsStatus(rows=bad.rows, first=bad.first)
        for name, bad in snapshot.bad_records.items()
        if name not in status.bad_records or bad.rows > status.bad_records[name].rows
    }
    if not more:
        return status
    return status.model_copy(update={"bad_records": {**status.bad_records, **more}})
