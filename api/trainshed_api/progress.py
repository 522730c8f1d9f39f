"""What a run says while it goes: one JSON object an event, on stdout and in metrics.jsonl."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from trainshed_api.names import BUCKETS, Outcome


def _blank_not_finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# JSON carries no NaN and no infinity: such a measurement is null.
Measurement = Annotated[float | None, BeforeValidator(_blank_not_finite)]


class Record(BaseModel):
    """Base of all that a run writes: immutable, camelCase outside, open to new fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    def to_line(self) -> str:
        """Return one line of JSON, without the line break."""
        return self.model_dump_json(by_alias=True)


class Seconds(Record):
    """Where the wall time went; on one machine nothing is queued, suspended or provisioned."""

    queued: float = 0.0
    suspended: float = 0.0
    provisioning: float = 0.0
    starting: float = 0.0
    training: float = 0.0
    waiting_for_data: float = 0.0
    evaluating: float = 0.0
    checkpointing: float = 0.0
    stopping: float = 0.0
    lost: float = 0.0

    def by_bucket(self) -> dict[str, float]:
        """Return the seconds by the name of the bucket, in the order of a run's life."""
        values = self.model_dump(by_alias=True)
        return {bucket: values[bucket] for bucket in BUCKETS}

    def total(self) -> float:
        """Return the seconds of all buckets together."""
        return math.fsum(self.by_bucket().values())


class ResumePoint(Record):
    """The checkpoint that training went on from; epoch counts finished ones. Null: nobody knows."""

    checkpoint: str
    epoch: int | None = None
    step: int | None = None


class Event(Record):
    """Base of all events; `time` is in seconds since 1970."""

    time: float


class Started(Event):
    """Training is about to begin, all workers are there."""

    event: Literal["started"] = "started"
    run: str
    attempt: int
    workers: int
    rows: dict[str, int] = Field(default_factory=dict)
    epochs: int | None = None
    steps: int | None = None
    folder: str
    resumed_from: ResumePoint | None = None


class Progress(Event):
    """How far training is; `epoch` is the one being worked on, from 1. Null: nobody knows."""

    event: Literal["progress"] = "progress"
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    percent: int | None = None
    samples_per_second: Measurement = None
    loss: Measurement = None
    metrics: dict[str, Measurement] = Field(default_factory=dict)
    data_wait_percent: Measurement = None
    eta_seconds: Measurement = None


class Evaluated(Event):
    """A dataset was evaluated; means over all of its rows."""

    event: Literal["evaluated"] = "evaluated"
    epoch: int | None = None
    step: int | None = None
    metrics: dict[str, Measurement]


class CheckpointSaved(Event):
    """A checkpoint is complete; training stood still for `blocked_seconds`. Null: nobody knows."""

    event: Literal["checkpoint"] = "checkpoint"
    epoch: int | None = None
    step: int | None = None
    path: str
    blocked_seconds: float | None = None


class WorkersLost(Event):
    """Workers were lost, all start again; from the beginning if `resumed_from` is null."""

    event: Literal["workersLost"] = "workersLost"
    message: str
    resumed_from: ResumePoint | None = None


class WarningEvent(Event):
    """Something the user should know that does not end the run."""

    event: Literal["warning"] = "warning"
    message: str


class Stopping(Event):
    """The run was asked to stop and has `grace_seconds` for a checkpoint."""

    event: Literal["stopping"] = "stopping"
    reason: str
    grace_seconds: float


class Finished(Event):
    """The last event of an attempt."""

    event: Literal["finished"] = "finished"
    outcome: Outcome
    message: str = ""
    metrics: dict[str, Measurement] = Field(default_factory=dict)
    seconds: Seconds = Field(default_factory=Seconds)
    wall_seconds: float
    goodput: Measurement = None
    report: str | None = None


AnyEvent = Annotated[
    Started
    | Progress
    | Evaluated
    | CheckpointSaved
    | WorkersLost
    | WarningEvent
    | Stopping
    | Finished,
    Field(discriminator="event"),
]
_ANY_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def parse_event(line: str) -> AnyEvent:
    """Return the event of one line. Raises ValueError for a line that is none."""
    return _ANY_EVENT.validate_json(line)
