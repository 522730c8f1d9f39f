"""What a status says of rows that are left out of datasets as bad. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.status import BadRecordsStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import TrainingRunStatus


def with_bad_records(
    status: TrainingRunStatus, snapshot: Snapshot, datasets: Collection[str]
) -> TrainingRunStatus:
    """Return the status with rows that are left out: an attempt may read fewer than one before.

    Args:
        status: before.
        snapshot: of an attempt.
        datasets: of the spec, and no others, because the size of a status is limited.
    """
    known = {name: bad for name, bad in status.bad_records.items() if name in datasets}
    more = {
        name: BadRecordsStatus(rows=bad.rows, first=bad.first)
        for name, bad in snapshot.bad_records.items()
        if name in datasets and (name not in known or bad.rows > known[name].rows)
    }
    if not more and len(known) == len(status.bad_records):
        return status
    return status.model_copy(update={"bad_records": {**known, **more}})
