"""What a driver tells the controller, and what it is answered: how an attempt does, as a whole.

Each snapshot stands for itself: one that is lost or comes twice changes nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainshed_api.names import FailureCause, Outcome
from trainshed_api.progress import Progress, Record, ResumePoint, Seconds
from trainshed_api.records import CheckpointRecord

SnapshotState = Literal["Starting", "Running", "Stopping", "Ended"]


class Snapshot(Record):
    """How an attempt does at one moment, told by its driver.

    time: when that was, seconds since 1970. workers_lost: how often the workers started again.
    outcome, cause, exit_code, message, traceback: with state Ended. result, report: where they lie.
    """

    attempt: int = Field(ge=1)
    time: float
    state: SnapshotState
    resumed_from: ResumePoint | None = None
    progress: Progress | None = None
    checkpoint: CheckpointRecord | None = None
    seconds: Seconds = Field(default_factory=Seconds)
    workers_lost: int = 0
    outcome: Outcome | None = None
    cause: FailureCause | None = None
    exit_code: int | None = None
    message: str = Field(default="", max_length=4096)
    traceback: str = Field(default="", max_length=16384)
    result: str | None = None
    report: str | None = None


class StopOrder(Record):
    """What the controller wants of a driver: stop, within so many seconds, for this reason."""

    reason: str
    grace_seconds: int


class Answer(Record):
    """What a snapshot is answered; status 410 says besides that the attempt is another one's."""

    stop: StopOrder | None = None
