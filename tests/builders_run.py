"""The only place where events and run folders of tests are born."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import METRICS, RECORD, RESULT, RunFolder
from trainshed_api.names import Outcome
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    Finished,
    Progress,
    ResumePoint,
    Seconds,
    Started,
)

Metrics = Mapping[str, float | None]
# The smallest PNG there is: one grey pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6368000000820081774fd2e20000000049454e44ae426082"
)
SECONDS = Seconds(starting=4.0, training=10.0, waiting_for_data=1.0, evaluating=2.0, lost=3.0)


@dataclass
class Shown:
    """A display that keeps what it is shown."""

    events: list[AnyEvent] = field(default_factory=list)

    def show(self, event: AnyEvent) -> None:
        """Keep it."""
        self.events.append(event)

    def close(self) -> None:
        """Do nothing."""


def make_started(attempt: int = 1, *, resumed_step: int | None = None) -> Started:
    """An attempt of the run `digits` with two workers."""
    return Started(
        time=1_700_000_000.0,
        run="digits",
        attempt=attempt,
        workers=2,
        rows={"train": 1437, "valid": 360},
        epochs=5,
        steps=225,
        folder="/runs/local/digits",
        resumed_from=make_resume_point(resumed_step) if resumed_step is not None else None,
    )


def make_resume_point(step: int) -> ResumePoint:
    """A resume at a step."""
    return ResumePoint(checkpoint="checkpoint_1", epoch=1, step=step)


def make_progress(step: int | None = 120, **changes: JsonValue) -> Progress:
    """Progress in the third of five epochs; `changes` are fields by their own names."""
    fields: dict[str, JsonValue] = {
        "time": 1_700_000_010.0,
        "epoch": 3,
        "epochs": 5,
        "step": step,
        "steps": 225,
        "percent": 53,
        "samples_per_second": 5210.0,
        "loss": 0.31,
        "metrics": {"loss": 0.31},
        "data_wait_percent": 2.0,
        "eta_seconds": 42.0,
    }
    return Progress.model_validate({**fields, **changes})


def make_evaluated(step: int = 135, metrics: Metrics | None = None) -> Evaluated:
    """An evaluation at the end of the third epoch."""
    values = dict(metrics or {"valid.loss": 0.2, "valid.accuracy": 0.95})
    return Evaluated(time=1_700_000_020.0, epoch=3, step=step, metrics=values)


def make_checkpoint(step: int = 135, path: str = "attempts/1/ray/c") -> CheckpointSaved:
    """A checkpoint at the end of the third epoch."""
    return CheckpointSaved(
        time=1_700_000_021.0, epoch=3, step=step, path=path, blocked_seconds=0.02
    )


def make_finished(
    outcome: Outcome = "Succeeded",
    *,
    message: str = "",
    metrics: Metrics | None = None,
    report: str | None = "/runs/local/digits/report.html",
) -> Finished:
    """The end of an attempt after 20 s, 10 of them training."""
    return Finished(
        time=1_700_000_022.0,
        outcome=outcome,
        message=message,
        metrics=dict({"loss": 0.0512, "valid.accuracy": 0.9722} if metrics is None else metrics),
        seconds=SECONDS,
        wall_seconds=20.0,
        goodput=0.5,
        report=report,
    )


def make_result(finished: Finished, attempt: int = 1) -> dict[str, JsonValue]:
    """What result.json says after `finished`."""
    return {
        "outcome": finished.outcome,
        "epoch": 5,
        "epochs": 5,
        "step": 225,
        "steps": 225,
        "metrics": dict(finished.metrics),
        "seconds": finished.seconds.model_dump(by_alias=True),
        "wallSeconds": finished.wall_seconds,
        "goodput": finished.goodput,
        "samplesPerSecond": 5173.0,
        "dataWaitPercent": 2.1,
        "checkpoint": {"path": "attempts/1/ray/c", "epoch": 5, "step": 225},
        "attempt": attempt,
        "message": finished.message,
        "finishedAt": "2026-01-31T17:05:49Z",
        "report": finished.report,
    }


@dataclass
class RunFolderBuilder:
    """A run folder to be; `write` puts it on storage and returns it."""

    name: str = "digits"
    spec: Mapping[str, JsonValue] = field(
        default_factory=lambda: {"train": "trainshed.programs.vision:train", "epochs": 5}
    )
    attempts: Sequence[Sequence[AnyEvent]] = ()
    result: Mapping[str, JsonValue] | None = None
    examples: Mapping[str, Sequence[Mapping[str, JsonValue]]] = field(default_factory=dict)
    last_line: str = ""

    def write(self, parent: Folder) -> Folder:
        """Write run.json, result.json and attempts/N under a new folder of `parent`."""
        run = RunFolder(parent / "run")
        run.at.write(RECORD, json.dumps(self._provenance()).encode())
        if self.result is not None:
            run.at.write(RESULT, json.dumps(self.result).encode())
        for number, events in enumerate(self.attempts, start=1):
            lines = "".join(event.to_line() + "\n" for event in events)
            lines = lines.replace("HERE/", f"{run.at}/")  # where that is, no builder knows
            run.attempt(number).write(METRICS, (lines + self.last_line).encode())
        for name, captions in self.examples.items():
            examples = run.attempt(1) / "examples"
            examples.write(f"{name}.json", json.dumps(captions).encode())
            for index in range(len(captions)):
                examples.write(f"{name}-{index}.png", PIXEL)
        return run.at

    def _provenance(self) -> dict[str, JsonValue]:
        return {
            "name": self.name,
            "specHash": "9f2c41d07be83a5c",
            "spec": dict(self.spec),
            "versions": {"python": "3.11.2", "ray": "2.60.0", "torch": "2.15.0"},
            "git": {"commit": "c2314525d1f0", "dirty": True},
            "machine": {"cpus": 2, "memoryBytes": 25_300_000_000, "gpus": 0},
            "data": {"train": {"rows": 1437, "bytes": 182_000, "files": 2, "fingerprint": "a41f"}},
            "createdAt": "2026-01-31T17:05:11Z",
        }


def make_ended_run(outcome: Outcome = "Succeeded", message: str = "") -> RunFolderBuilder:
    """A run of one attempt that trained, evaluated, wrote a checkpoint and ended."""
    finished = make_finished(outcome, message=message)
    progress = [make_progress(step) for step in range(10, 230, 10)]
    events: list[AnyEvent] = [make_started(), *progress, make_evaluated(), make_checkpoint()]
    return RunFolderBuilder(attempts=[[*events, finished]], result=make_result(finished))
