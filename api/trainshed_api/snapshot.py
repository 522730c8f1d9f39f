"""What a driver tells the controller, whole each time, and what the controller answers.

A snapshot is made from the same events that a display shows, so none of them may be missed for
good: any snapshot holds all that the ones before it said.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from trainshed_api.names import (
    FAILED,
    INVALID,
    MAX_SNAPSHOT_BYTES,
    SNAPSHOT_LINE,
    FailureCause,
    Outcome,
)
from trainshed_api.progress import (
    AnyEvent,
    BadRecords,
    CheckpointSaved,
    Count,
    Evaluated,
    Finished,
    Measurement,
    Moment,
    Progress,
    Record,
    ResumePoint,
    Seconds,
    Span,
    Started,
    Stopping,
    Text,
    WarningEvent,
    WorkersLost,
    WorkersReady,
)
from trainshed_api.records import BadRecordsRecord, CheckpointRecord
from trainshed_api.start_times import StartTimes

MAX_MESSAGE, MAX_TRACEBACK, MAX_WARNINGS = 2_000, 16_000, 10
_MAX_METRICS, _MAX_NAME = 100, 256
_MAX_HOSTS = 500
# Of a dataset's rows that are left out, told in a status.
MAX_BAD, MAX_REASON = 5, 500
_MAX_DATASETS = 20


def _first_metrics(metrics: dict[str, float | None]) -> dict[str, float | None]:
    """Return as many as are kept; the rest would be more than anybody reads in a status."""
    return {name[:_MAX_NAME]: metrics[name] for name in list(metrics)[:_MAX_METRICS]}


def _with_first_metrics(progress: Progress) -> Progress:
    return progress.model_copy(update={"metrics": _first_metrics(progress.metrics)})


def _few_bad(known: dict[str, BadRecordsRecord]) -> dict[str, BadRecordsRecord]:
    return {
        name[:_MAX_NAME]: BadRecordsRecord(
            rows=bad.rows, first=tuple(text[:MAX_REASON] for text in bad.first[:MAX_BAD])
        )
        for name, bad in list(known.items())[:_MAX_DATASETS]
    }


Message = Annotated[str, AfterValidator(lambda text: text[:MAX_MESSAGE])]
Traceback = Annotated[str, AfterValidator(lambda text: text[-MAX_TRACEBACK:])]
Warnings = Annotated[tuple[Message, ...], AfterValidator(lambda texts: texts[-MAX_WARNINGS:])]
Hosts = Annotated[tuple[Text, ...], AfterValidator(lambda names: names[:_MAX_HOSTS])]
Bad = Annotated[dict[str, BadRecordsRecord], AfterValidator(_few_bad)]
Metrics = Annotated[dict[str, Measurement], AfterValidator(_first_metrics)]
Steps = Annotated[Progress, AfterValidator(_with_first_metrics)]


class Snapshot(Record):
    """All that is known of an attempt. Null: nobody knows, or not yet.

    time: when it was made, seconds since 1970. sequence: grows by one with each of a driver's.
    state: Ended comes with outcome, and Failed with cause. exit_code: what the driver will end
    with. host: of the driver; hosts: of the workers, in a cluster the names of their Pods.
    restarting: workers were lost, and the next ones have done nothing yet. progress: of the
    steps; metrics: the last value of each that was evaluated or reported. bad_records: by dataset,
    what is left out. waits_for: why training waits for data, where it does now. steps_begun: the
    function has asked for a batch of the run's steps. start: its phases. wall_seconds: since the
    driver's process began; seconds: where they went.
    """

    time: Moment
    sequence: Annotated[Count, Field(ge=0)] = 0
    attempt: Count
    state: Literal["Starting", "Training", "Stopping", "Ended"] = "Starting"
    host: Text = ""
    folder: Text = ""
    started: Moment | None = None
    workers: Count | None = None
    resumed_from: ResumePoint | None = None
    hosts: Hosts = ()
    workers_lost: Count = 0
    restarting: bool = False
    progress: Steps | None = None
    metrics: Metrics = Field(default_factory=dict)
    checkpoint: CheckpointRecord | None = None
    warnings: Warnings = ()
    bad_records: Bad = Field(default_factory=dict)
    waits_for: Message = ""
    steps_begun: bool = False
    start: StartTimes = Field(default_factory=StartTimes)
    stop_reason: Text | None = None
    outcome: Outcome | None = None
    cause: FailureCause | None = None
    exit_code: Count | None = None
    message: Message = ""
    traceback: Traceback = ""
    seconds: Seconds = Field(default_factory=Seconds)
    wall_seconds: Span = 0.0
    goodput: Measurement = None
    result: Text | None = None
    report: Text | None = None

    def after(self, event: AnyEvent) -> Snapshot:
        """Return what is known after an event."""
        changes: dict[str, object] = {}
        match event:
            case Started():
                changes = {
                    "state": "Training",
                    "started": event.time,
                    "workers": event.workers,
                    "folder": event.folder,
                    "resumed_from": event.resumed_from,
                }
            case Progress():
                metrics = {**self.metrics, **event.metrics}
                changes = {"progress": event, "metrics": metrics, "restarting": False}
            case Evaluated():
                changes = {"metrics": {**self.metrics, **event.metrics}, "restarting": False}
            case CheckpointSaved():
                saved = CheckpointRecord(path=event.path, epoch=event.epoch, step=event.step)
                changes = {"checkpoint": saved, "restarting": False}
            case WorkersLost():
                changes = {
                    "workers_lost": self.workers_lost + 1,
                    "restarting": True,
                    "warnings": self._warned(event.message),
                }
            case WorkersReady():
                # Drivers that report steps do so in every snapshot; others never do.
                changes = {"restarting": self.restarting and self.progress is not None}
            case WarningEvent():
                changes = {"warnings": self._warned(event.message)}
            case BadRecords():
                before = self.bad_records.get(event.dataset, BadRecordsRecord(rows=0))
                known = {**self.bad_records, event.dataset: before.after(event)}
                changes = {"bad_records": _few_bad(known)}
            case Stopping():
                changes = {"state": "Stopping", "stop_reason": event.reason}
            case Finished():
                changes = self._ended(event)
        return self.model_copy(update={"start": self.start.after(event), **changes})

    def refused(self, message: str, exit_code: int) -> Snapshot:
        """Return the end of a run that cannot be accepted."""
        changes = {
            "state": "Ended",
            "outcome": FAILED,
            "cause": INVALID,
            "exit_code": exit_code,
            "message": message[:MAX_MESSAGE],
        }
        return self.model_copy(update=changes)

    def to_payload(self) -> str:
        """Return it as JSON of at most MAX_SNAPSHOT_BYTES; many metrics give way to that."""
        text = self.to_line()
        if len(text.encode()) <= MAX_SNAPSHOT_BYTES:
            return text
        progress = self.progress and self.progress.model_copy(update={"metrics": {}})
        short: dict[str, object] = {
            "progress": progress,
            "metrics": {},
            "warnings": (),
            "hosts": (),
            "bad_records": {},
        }
        return self.model_copy(update=short).to_line()

    def _warned(self, message: str) -> tuple[str, ...]:
        return (*self.warnings, message[:MAX_MESSAGE])[-MAX_WARNINGS:]

    def _ended(self, event: Finished) -> dict[str, object]:
        return {
            "state": "Ended",
            "outcome": event.outcome,
            "message": event.message[:MAX_MESSAGE],
            "metrics": {**self.metrics, **event.metrics},
            "seconds": event.seconds,
            "wall_seconds": event.wall_seconds,
            "goodput": event.goodput,
            "report": event.report,
        }


class StopOrder(Record):
    """Why to stop, and how long there is for a checkpoint."""

    reason: str
    grace_seconds: float


# As many names of Pods as an answer holds that a driver reads whole.
MAX_GONE = 500


class Answer(Record):
    """What the controller says to a snapshot.

    stop: an order. gone: Pods of workers of the driver's RayCluster that Kubernetes has no more,
    the last ones alone.
    """

    stop: StopOrder | None = None
    gone: tuple[str, ...] = ()


def final_snapshot(log: str) -> Snapshot | None:
    """Return the snapshot that a driver's log ends with; None where there is none."""
    # Only "\n": JSON leaves as they are the other characters that end a line for Python.
    for line in reversed(log.split("\n")):
        if line.startswith(SNAPSHOT_LINE):
            try:
                return Snapshot.model_validate_json(line.removeprefix(SNAPSHOT_LINE))
            except ValidationError:
                return None
    return None
