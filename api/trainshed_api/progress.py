"""What a run says while it goes: one JSON object an event, on stdout and in metrics.jsonl."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

from trainshed_api.names import BUCKETS, Outcome


def _blank_not_finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _cut(text: str) -> str:
    return text[:MAX_TEXT]


def _encodable(given: object) -> object:
    """Return the same; halves of surrogate pairs, which no encoding has, are written out in texts.

    Words of errors and names of files may have them.
    """
    if isinstance(given, str):
        return given if given.isascii() else given.encode(errors="backslashreplace").decode()
    if isinstance(given, dict):
        return {_encodable(key): _encodable(value) for key, value in given.items()}
    if isinstance(given, list):
        return [_encodable(value) for value in given]
    if type(given) is tuple:
        return tuple(_encodable(value) for value in given)
    return given


def _held(value: float | None, most: float) -> float | None:
    return None if value is None else min(max(value, 0.0), most)


# What a run writes is read by others too, and may be anything: what it says stays within what a
# date, a 64-bit integer (of a difference, too) and a text of a TrainingRun's status can hold.
MAX_TEXT = 4096
LARGEST_COUNT = 10**15
_LONGEST_SECONDS = 1e10
_YEAR_10000 = 253_402_300_800
Count = Annotated[int, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]
Text = Annotated[str, AfterValidator(_cut)]
Moment = Annotated[float, Field(ge=0, lt=_YEAR_10000, allow_inf_nan=False)]
"""Seconds since 1970."""
Span = Annotated[float, Field(ge=-_LONGEST_SECONDS, le=_LONGEST_SECONDS, allow_inf_nan=False)]
"""Seconds; a clock that is set back may make them negative."""
# JSON carries no NaN and no infinity: such a measurement is null.
Measurement = Annotated[float | None, AfterValidator(_blank_not_finite)]
Percent = Annotated[Measurement, AfterValidator(lambda value: _held(value, 100.0))]
SecondsLeft = Annotated[Measurement, AfterValidator(lambda value: _held(value, _LONGEST_SECONDS))]


class Record(BaseModel):
    """Base of all that a run writes: immutable, camelCase outside, open to new fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _have_it_encodable(cls, given: object) -> object:
        return _encodable(given)

    def to_line(self) -> str:
        """Return one line of JSON, without the line break."""
        return self.model_dump_json(by_alias=True)


class Seconds(Record):
    """Where the wall time went; on one machine nothing is queued, suspended or provisioned."""

    queued: Span = 0.0
    suspended: Span = 0.0
    provisioning: Span = 0.0
    starting: Span = 0.0
    training: Span = 0.0
    waiting_for_data: Span = 0.0
    evaluating: Span = 0.0
    checkpointing: Span = 0.0
    stopping: Span = 0.0
    lost: Span = 0.0

    def by_bucket(self) -> dict[str, float]:
        """Return the seconds by the name of the bucket, in the order of a run's life."""
        values = self.model_dump(by_alias=True)
        return {bucket: values[bucket] for bucket in BUCKETS}

    def total(self) -> float:
        """Return the seconds of all buckets together."""
        return math.fsum(self.by_bucket().values())


class ResumePoint(Record):
    """The checkpoint that training went on from; epoch counts finished ones. Null: nobody knows."""

    checkpoint: Text
    epoch: Count | None = None
    step: Count | None = None


class Event(Record):
    """Base of all events; `time` is in seconds since 1970."""

    time: Moment


StartPhase = Literal["imports", "planning", "ray", "workers"]


class Starting(Event):
    """A phase of an attempt's start begins; `started` ends the last one."""

    event: Literal["starting"] = "starting"
    phase: StartPhase


StepName = Literal["step", "round"]


class Started(Event):
    """Training is about to begin, all workers are there; `step_name` is what steps are called."""

    event: Literal["started"] = "started"
    run: str
    attempt: int
    workers: int
    rows: dict[str, int] = Field(default_factory=dict)
    epochs: int | None = None
    steps: int | None = None
    folder: str
    resumed_from: ResumePoint | None = None
    step_name: StepName = "step"


class Progress(Event):
    """How far training is; `epoch` is the one being worked on, from 1. Null: nobody knows."""

    event: Literal["progress"] = "progress"
    epoch: Count | None = None
    epochs: Count | None = None
    step: Count | None = None
    steps: Count | None = None
    percent: Count | None = None
    samples_per_second: Measurement = None
    loss: Measurement = None
    metrics: dict[str, Measurement] = Field(default_factory=dict)
    data_wait_percent: Percent = None
    eta_seconds: SecondsLeft = None


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


class WorkersReady(Event):
    """The workers that took the place of lost ones begin."""

    event: Literal["workersReady"] = "workersReady"


class WarningEvent(Event):
    """Something the user should know that does not end the run."""

    event: Literal["warning"] = "warning"
    message: str


class BadRecords(Event):
    """Rows of a dataset that are left out as they cannot be used.

    `rows` are all that are known now, each counted once; `first` are some of them that no event
    has told before, with file, place and reason.
    """

    event: Literal["badRecords"] = "badRecords"
    dataset: Text
    rows: Count
    first: tuple[Text, ...] = ()


StopsWith = Literal["checkpoint", "rows", "reportedCheckpoint", "report", "end"]


class Stopping(Event):
    """The run was asked to stop and has `grace_seconds` for that.

    until: what ends it: a checkpoint that the runtime writes, rows that some workers wait for, the
    next checkpoint or the next report of a function with a loop of its own, or nothing that is
    known.
    """

    event: Literal["stopping"] = "stopping"
    reason: str
    grace_seconds: float
    until: StopsWith = "checkpoint"


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
    Starting
    | Started
    | Progress
    | Evaluated
    | CheckpointSaved
    | WorkersLost
    | WorkersReady
    | WarningEvent
    | BadRecords
    | Stopping
    | Finished,
    Field(discriminator="event"),
]
_ANY_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def parse_event(line: str) -> AnyEvent:
    """Return the event of one line. Raises ValueError for a line that is none."""
    return _ANY_EVENT.validate_json(line)
