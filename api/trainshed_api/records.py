"""What a run leaves beside its checkpoints: run.json says what it was, result.json how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field, JsonValue

from trainshed_api.data import ShuffleSpec
from trainshed_api.names import Outcome
from trainshed_api.progress import BadRecords, Count, Measurement, Record, Seconds, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Of a dataset's rows that are left out, told with file, place and reason.
MOST_TOLD = 20


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
    """The data of one dataset; the fingerprint changes when its files do.

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


class BadRecordsRecord(Record):
    """Rows of a dataset that were left out, and the first of them with file, place and reason."""

    rows: Count
    first: tuple[Text, ...] = ()

    def after(self, event: BadRecords) -> BadRecordsRecord:
        """Return what is known after an event of the same dataset."""
        return BadRecordsRecord(rows=event.rows, first=(*self.first, *event.first)[:MOST_TOLD])


def bad_records_of(events: Iterable[Record]) -> dict[str, BadRecordsRecord]:
    """Return what the events of one attempt tell, by dataset."""
    known: dict[str, BadRecordsRecord] = {}
    for event in events:
        if isinstance(event, BadRecords):
            known[event.dataset] = known.get(event.dataset, BadRecordsRecord(rows=0)).after(event)
    return known


def most_bad_records(
    attempts: Iterable[Mapping[str, BadRecordsRecord]],
) -> dict[str, BadRecordsRecord]:
    """Return by dataset what the attempt tells that met most: one that goes on may read less."""
    most: dict[str, BadRecordsRecord] = {}
    for known in attempts:
        for name, bad in known.items():
            if name not in most or bad.rows > most[name].rows:
                most[name] = bad
    return most


class RunRecord(Record):
    """run.json: what ran, from which spec, code and data.

    `code` has the SHA-256 of each file of the user's code, by its path below the working directory,
    `shuffle` how the rows of each dataset are shuffled; earlier releases wrote none.
    """

    name: str
    spec_hash: str
    spec: dict[str, JsonValue]
    versions: dict[str, str]
    git: GitState | None = None
    code: dict[str, str] = Field(default_factory=dict)
    machine: MachineRecord
    data: dict[str, DataRecord] = Field(default_factory=dict)
    shuffle: dict[str, ShuffleSpec] = Field(default_factory=dict)
    created_at: AwareDatetime


class StageRecord(Record):
    """What a stage of a dataset took: seconds of all tasks, processes and threads together.

    `stage` is what it is for people, such as `transform my_package:decode`.
    """

    dataset: str
    stage: str
    seconds: float
    rows: int


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
    waits_for: str | None = None
    data: list[StageRecord] = Field(default_factory=list)
    checkpoint: CheckpointRecord | None = None
    best: CheckpointRecord | None = None
    attempt: int
    message: str = ""
    finished_at: AwareDatetime
    report: str | None = None
    bad_records: dict[str, BadRecordsRecord] = Field(default_factory=dict)
