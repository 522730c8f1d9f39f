"""What a run leaves beside its checkpoints: run.json says what it was, result.json how it ended."""

from __future__ import annotations

from pydantic import AwareDatetime, Field, JsonValue

from trainshed_api.names import Outcome
from trainshed_api.progress import Count, Measurement, Record, Seconds, Text


class GitState(Record):
    """The commit of the user's folder; dirty: with changes that are in no commit."""

    commit: str
    dirty: bool


class MachineRecord(Record):
    """What the machine of the driver has."""

    cpus: int
    memory_bytes: int
    gpus: int


class DataRecord(Record):
    """What was read of one dataset; the fingerprint changes when its files do.

    `rows` is null where only reading tells.
    """

    rows: int | None
    bytes: int
    files: int
    fingerprint: str


class CheckpointRecord(Record):
    """A checkpoint and how far training was when it was written; epoch counts finished ones.

    Null: nobody knows.
    """

    path: Text
    epoch: Count | None = None
    step: Count | None = None


class RunRecord(Record):
    """run.json: what ran, from which spec, code and data."""

    name: str
    spec_hash: str
    spec: dict[str, JsonValue]
    versions: dict[str, str]
    git: GitState | None = None
    machine: MachineRecord
    data: dict[str, DataRecord] = Field(default_factory=dict)
    created_at: AwareDatetime


class ResultRecord(Record):
    """result.json: how the run ended. Null: nobody knows."""

    outcome: Outcome
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    metrics: dict[str, Measurement] = Field(default_factory=dict)
    seconds: Seconds = Field(default_factory=Seconds)
    wall_seconds: float
    goodput: Measurement = None
    samples_per_second: Measurement = None
    data_wait_percent: Measurement = None
    checkpoint: CheckpointRecord | None = None
    best: CheckpointRecord | None = None
    attempt: int
    message: str = ""
    finished_at: AwareDatetime
    report: str | None = None
