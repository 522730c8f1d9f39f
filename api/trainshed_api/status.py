"""How a TrainingRun does in a cluster: what the controller writes into `status`, and nobody else.

Rates, losses and metrics are texts, as Kubernetes wants of what is no whole number; `time` alone
has seconds with fractions, because its parts have to add up.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
)
from pydantic.alias_generators import to_camel

from trainshed_api.schema import MOST_COUNT, Count

ConditionType = Literal[
    "Accepted",
    "Admitted",
    "ClusterReady",
    "Progressing",
    "Suspended",
    "Complete",
    "Failed",
    "InternalError",
]
Phase = Literal[
    "Queued",
    "Starting",
    "Running",
    "Stopping",
    "Suspended",
    "Restarting",
    "Succeeded",
    "Failed",
]
AttemptOutcome = Literal[
    "Succeeded",
    "Invalid",
    "Application",
    "OutOfMemory",
    "Infrastructure",
    "Preempted",
    "Superseded",
    "Stopped",
    "StoppedOutside",
]


def _whole_seconds(moment: AwareDatetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _none_as_empty(value: object) -> object:
    return () if value is None else value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("expected a text")  # pydantic reports no TypeError
    return value


# How Ray begins a message that has the end of a driver's log.
_RAY_LOG = "last available logs"
# How it begins what it says of packages that cannot be installed; pip's answer is at the end.
_NO_ENVIRONMENT = "Failed to set up runtime environment."


def first_sentence(message: str) -> str:
    """Return the line of a message that states the cause: no log and no traceback behind it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return ""
    if len(lines) > 1 and lines[0].endswith(_NO_ENVIRONMENT):
        return lines[0].replace(_NO_ENVIRONMENT, lines[-1])
    is_log = _RAY_LOG in lines[0] or lines[0].startswith("...")
    return lines[-1] if is_log else lines[0]


T = TypeVar("T")
# A later release may write words that this one does not know: they are read as they are.
Open = Annotated[T, PlainValidator(_text, json_schema_input_type=str)]
Moment = Annotated[AwareDatetime, PlainSerializer(_whole_seconds, return_type=str)]


class StatusModel(BaseModel):
    """Base of all parts of the status: immutable, camelCase, keeps what a later version wrote."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class Condition(StatusModel):
    """One statement about the run, as Kubernetes makes them."""

    type: Open[ConditionType] = Field(description="What it is about.")
    status: Open[Literal["True", "False", "Unknown"]] = Field(description="Whether it holds.")
    reason: str = Field(max_length=128, description="Why, in one word.")
    message: str = Field(default="", max_length=8192, description="Why, for people.")
    last_transition_time: Moment = Field(description="When `status` last changed.")
    observed_generation: int = Field(default=0, description="Generation that this is about.")

    @property
    def sentence(self) -> str:
        """Return why, in one line, as Events and `trainshed why` say it."""
        return first_sentence(self.message) or self.reason


class ResumedFrom(StatusModel):
    """The checkpoint that an attempt went on from."""

    checkpoint: str = Field(description="Its path.")
    epoch: int | None = Field(default=None, description="Epochs that were finished then.")
    step: int | None = Field(default=None, description="Steps that were done then.")


class DriverTime(StatusModel):
    """Where the time of one attempt went, as its driver measured it."""

    starting: float = Field(default=0.0, description="Until the first step.")
    training: float = Field(default=0.0, description="Steps.")
    waiting_for_data: float = Field(default=0.0, description="Waiting for batches.")
    evaluating: float = Field(default=0.0, description="Evaluation.")
    checkpointing: float = Field(default=0.0, description="Standing still for checkpoints.")
    stopping: float = Field(default=0.0, description="From the last step to the end.")
    lost: float = Field(default=0.0, description="Repeated steps, and restarts of the workers.")

    def total(self) -> float:
        """Return the seconds of one driver, all of it."""
        told = (self.starting, self.training, self.waiting_for_data, self.evaluating)
        return math.fsum((*told, self.checkpointing, self.stopping, self.lost))


class StartSeconds(StatusModel):
    """How long each phase of an attempt's start took; a phase that has not ended is not there."""

    imports: float | None = Field(default=None, description="Importing packages.")
    planning: float | None = Field(default=None, description="Checking code and data.")
    ray: float | None = Field(default=None, description="Starting Ray.")
    workers: float | None = Field(default=None, description="Starting workers.")
    first_step: float | None = Field(default=None, description="Making the first step.")


class RunTime(DriverTime):
    """Where the time of the run went, seconds over all attempts."""

    queued: float = Field(default=0.0, description="Waiting for capacity.")
    suspended: float = Field(default=0.0, description="Suspended.")
    provisioning: float = Field(default=0.0, description="From admission until the program starts.")
    goodput: str = Field(default="", description="Training as a share of all that is above.")


_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ResourceRequest(StatusModel):
    """What a run needs of a RayCluster: workers of one size, and CPUs for its data."""

    count: Count = Field(description="Workers.")
    group: str = Field(default="", description="Group of nodes for the workers.")
    cpu: _Amount = Field(default=0.0, description="CPUs of each worker.")
    gpu: _Amount = Field(default=0.0, description="GPUs of each worker.")
    memory: _Amount = Field(default=0.0, description="Bytes of memory of each worker.")
    data_cpus: _Amount = Field(default=0.0, description="CPUs for Ray Data, beside the workers.")
    data_group: str = Field(default="", description="Group of nodes for Ray Data.")


class Reservation(ResourceRequest):
    """What an attempt holds of a shared RayCluster; an annotation of its RayJob has it, too.

    Anybody may write the annotation, so all of it can be counted with.
    """

    since: Moment = Field(description="When it was granted.")
    grace_seconds: int = Field(
        default=0, ge=0, le=MOST_COUNT, description="How long its driver may take to stop."
    )


class AttemptStatus(StatusModel):
    """One attempt: one RayJob, one driver."""

    number: int = Field(description="1 for the first.")
    generation: int = Field(description="Generation of the spec that it runs.")
    spec_hash: str = Field(default="", description="Identity of the training that it belongs to.")
    training_hash: str = Field(
        default="", description="The same without what only sets speed; earlier releases lack it."
    )
    ray_job: str = Field(description="Name of its RayJob.")
    job_id: str = Field(description="Its submission id in Ray.")
    ray_cluster: str = Field(default="", description="Name of the RayCluster it runs on.")
    head_identity: str = Field(default="", description="Pod and container of the Ray head.")
    start_time: Moment | None = Field(default=None, description="When its program was started.")
    end_time: Moment | None = Field(default=None, description="When it ended.")
    stop_time: Moment | None = Field(default=None, description="When it was asked to stop.")
    stop_reason: str = Field(default="", description="Why it was asked to stop.")
    outcome: Open[AttemptOutcome] | None = Field(default=None, description="How it ended.")
    reason: str = Field(default="", description="Why it ended so, in one word.")
    message: str = Field(default="", max_length=8192, description="Why, for people.")
    exit_code: int | None = Field(default=None, description="Exit code of its driver.")
    node: str = Field(default="", description="Node of the Pod that was its end.")
    resumed_from: ResumedFrom | None = Field(default=None, description="Where it went on from.")
    steps_lost: int | None = Field(default=None, description="Steps after its last checkpoint.")
    time: DriverTime = Field(default_factory=DriverTime, description="Where its time went.")
    start: StartSeconds | None = Field(
        default=None, description="Seconds of the phases of its start, as its driver measured them."
    )
    reservation: Reservation | None = Field(
        default=None, description="What it holds of a shared RayCluster until it is released."
    )
    release_time: Moment | None = Field(
        default=None, description="When it held nothing any more: its driver ended."
    )
    release_reason: str = Field(
        default="",
        description="How that is known: JobOver, HeadReplaced, PodsGone, or TimedOut where nobody "
        "answered.",
    )


class FailureCounts(StatusModel):
    """How many attempts failed, by what counts against a budget."""

    application: int = Field(default=0, description="Failures of the program.")
    infrastructure: int = Field(default=0, description="Failures of what it ran on.")
    out_of_memory: int = Field(default=0, description="Times that memory ran out.")
    preempted: int = Field(default=0, description="Times that it was preempted.")


class ProgressDisplay(StatusModel):
    """Progress for the columns of `kubectl get`."""

    epoch: str = Field(default="", description="Such as 3/5.")
    step: str = Field(default="", description="Such as 120/390.")
    loss: str = Field(default="", description="Last loss.")
    rate: str = Field(default="", description="Samples a second.")
    data_wait: str = Field(default="", description="Share of the time spent waiting for data.")
    eta: str = Field(default="", description="Time that is left.")


class ProgressStatus(StatusModel):
    """How far training is."""

    epoch: int | None = Field(default=None, description="Epoch that is worked on, from 1.")
    epochs: int | None = Field(default=None, description="Epochs in all.")
    step: int | None = Field(default=None, description="Steps done.")
    steps: int | None = Field(default=None, description="Steps in all.")
    percent: int | None = Field(default=None, description="Done, of 100.")
    samples_per_second: str = Field(default="", description="Samples a second, all workers.")
    loss: str = Field(default="", description="Last loss.")
    metrics: dict[str, str] = Field(default_factory=dict, description="Last value of each metric.")
    data_wait_percent: int | None = Field(default=None, description="Time waiting for data.")
    eta_seconds: int | None = Field(default=None, description="Seconds that are left.")
    moved_at: Moment | None = Field(default=None, description="When a step was last made.")
    updated_at: Moment | None = Field(default=None, description="When its driver said so.")
    display: ProgressDisplay = Field(
        default_factory=ProgressDisplay, description="The same for the columns."
    )


class CheckpointStatus(StatusModel):
    """The last complete checkpoint."""

    path: str = Field(description="Where it lies.")
    epoch: int | None = Field(default=None, description="Epochs that were finished.")
    step: int | None = Field(default=None, description="Steps that were done.")
    time: Moment | None = Field(default=None, description="When the controller received it.")


class QueueStatus(StatusModel):
    """Where the run stands in the queue of its cluster."""

    position: int = Field(description="1 is next.")
    reason: str = Field(default="", description="What it waits for.")
    missing: str = Field(default="", description="Resources that are not free.")
    held_by: tuple[str, ...] = Field(default=(), description="Runs that hold resources.")


class ResultStatus(StatusModel):
    """What came out."""

    path: str = Field(default="", description="result.json.")
    report: str = Field(default="", description="report.html.")
    metrics: dict[str, str] = Field(default_factory=dict, description="Last value of each metric.")


class BadRecordsStatus(StatusModel):
    """Rows of a dataset that are left out as they cannot be used (onBadRecord: skip)."""

    rows: int = Field(description="How many.")
    first: tuple[str, ...] = Field(default=(), description="File, place and reason of the first.")


class TrainingRunStatus(StatusModel):
    """How the run does."""

    observed_generation: int = Field(default=0, description="Generation that this is about.")
    phase: Open[Phase] | None = Field(default=None, description="Where the run is, in one word.")
    phase_time: Moment | None = Field(default=None, description="When the phase began.")
    conditions: Annotated[tuple[Condition, ...], BeforeValidator(_none_as_empty)] = Field(
        default=(), description="What is known of the run."
    )
    start_time: Moment | None = Field(default=None, description="When the first attempt was begun.")
    completion_time: Moment | None = Field(default=None, description="When the run ended.")
    attempt: int = Field(default=0, description="Number of the newest attempt.")
    attempts: Annotated[tuple[AttemptStatus, ...], BeforeValidator(_none_as_empty)] = Field(
        default=(), description="The last ten attempts."
    )
    failures: FailureCounts = Field(
        default_factory=FailureCounts, description="Failed attempts, all of them."
    )
    progress: ProgressStatus | None = Field(default=None, description="How far training is.")
    time: RunTime = Field(default_factory=RunTime, description="Where the time went, in seconds.")
    checkpoint: CheckpointStatus | None = Field(
        default=None, description="The last complete checkpoint."
    )
    bad_records: dict[str, BadRecordsStatus] = Field(
        default_factory=dict, description="Rows that are left out as bad, by dataset."
    )
    queue: QueueStatus | None = Field(default=None, description="Place in the queue.")
    result: ResultStatus | None = Field(default=None, description="What came out.")
    dashboard: str = Field(default="", description="Ray's dashboard, inside the cluster.")

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type."""
        return next((item for item in self.conditions if item.type == kind), None)

    def holds(self, kind: ConditionType) -> bool:
        """Say whether the condition of this type is there and true."""
        found = self.condition(kind)
        return found is not None and found.status == "True"
