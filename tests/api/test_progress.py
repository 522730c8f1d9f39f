"""Events and records: the JSON they become, and back."""

import json
from datetime import UTC, datetime

import pytest

from trainshed_api.names import BUCKETS
from trainshed_api.progress import (
    BadRecords,
    CheckpointSaved,
    Evaluated,
    Event,
    Finished,
    Progress,
    ResumePoint,
    Seconds,
    Started,
    Starting,
    Stopping,
    WarningEvent,
    WorkersLost,
    WorkersReady,
    parse_event,
)
from trainshed_api.records import ResultRecord

HERE = ResumePoint(checkpoint="c", epoch=1, step=9)
EVENTS: dict[str, Event] = {
    "started": Started(time=1.0, run="r", attempt=1, workers=2, folder="f", resumed_from=HERE),
    "starting": Starting(time=1.0, phase="ray"),
    "progress": Progress(time=1.0, epoch=3, epochs=5, step=120, steps=225, loss=0.5),
    "evaluated": Evaluated(time=1.0, epoch=3, step=135, metrics={"valid.accuracy": 0.5}),
    "checkpoint": CheckpointSaved(time=1.0, epoch=3, step=1, path="p", blocked_seconds=0.02),
    "workersLost": WorkersLost(time=1.0, message="gone"),
    "workersReady": WorkersReady(time=1.0),
    "warning": WarningEvent(time=1.0, message="slow"),
    "stopping": Stopping(time=1.0, reason="Interrupted", grace_seconds=60),
    "finished": Finished(time=1.0, outcome="Succeeded", wall_seconds=3.0),
}


@pytest.mark.parametrize("name", EVENTS)
def test_event_is_one_line_and_back(name: str) -> None:
    line = EVENTS[name].to_line()

    assert "\n" not in line
    assert json.loads(line)["event"] == name
    assert parse_event(line) == EVENTS[name]


def test_half_of_a_surrogate_pair_is_written_out_wherever_a_text_may_be() -> None:
    half = "caf\udce9"
    warning = WarningEvent(time=1.0, message=f"{half} is no name")
    left_out = BadRecords(time=1.0, dataset="train", rows=1, first=(f"{half}: byte 0",))
    evaluated = Evaluated(time=1.0, metrics={half: 1.0})

    said = [parse_event(event.to_line()) for event in (warning, left_out, evaluated)]

    assert said == [warning, left_out, evaluated]
    assert warning.message == "caf\\udce9 is no name"
    assert left_out.first == ("caf\\udce9: byte 0",)
    assert evaluated.metrics == {"caf\\udce9": 1.0}


def test_line_has_all_fields_in_camel_case() -> None:
    want = {
        "time": 1.0,
        "event": "progress",
        "epoch": 3,
        "epochs": 5,
        "step": 120,
        "steps": 225,
        "percent": None,
        "samplesPerSecond": None,
        "loss": 0.5,
        "metrics": {},
        "dataWaitPercent": None,
        "etaSeconds": None,
    }
    assert json.loads(EVENTS["progress"].to_line()) == want


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_carry_is_null(value: float) -> None:
    event = Progress(time=1.0, epoch=1, step=1, loss=value, metrics={"a": value, "b": 1.0})

    line = json.loads(event.to_line())

    assert line["loss"] is None
    assert line["metrics"] == {"a": None, "b": 1.0}


def test_line_of_a_later_version_is_read() -> None:
    line = '{"event": "warning", "time": 1, "message": "m", "severity": 3}'

    assert parse_event(line) == WarningEvent(time=1.0, message="m")


@pytest.mark.parametrize("line", ["", "{}", '{"event": "other", "time": 1}', '{"event": "pro'])
def test_line_that_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse_event(line)


def test_seconds_have_every_bucket_and_a_total() -> None:
    seconds = Seconds(training=2.5, waiting_for_data=0.5)

    assert tuple(seconds.by_bucket()) == BUCKETS
    assert seconds.total() == 3.0


def test_result_is_read_back_the_same() -> None:
    result = ResultRecord(
        outcome="Stopped",
        epoch=2,
        step=30,
        wall_seconds=12.5,
        attempt=1,
        metrics={"loss": float("nan")},
        finished_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )

    text = result.to_line()

    assert ResultRecord.model_validate_json(text) == result
    assert json.loads(text)["finishedAt"] == "2026-01-02T03:04:05Z"
