"""A snapshot holds what all events so far said, in a bounded size."""

import pytest
from pydantic import ValidationError

from tests.builders_run import (
    make_checkpoint,
    make_evaluated,
    make_finished,
    make_progress,
    make_started,
)
from trainshed_api.names import EXIT_INVALID, MAX_SNAPSHOT_BYTES, SNAPSHOT_LINE
from trainshed_api.progress import (
    MAX_TEXT,
    AnyEvent,
    BadRecords,
    Progress,
    Starting,
    Stopping,
    WarningEvent,
    WorkersLost,
    WorkersReady,
    parse_event,
)
from trainshed_api.records import BadRecordsRecord, CheckpointRecord
from trainshed_api.snapshot import (
    MAX_MESSAGE,
    MAX_TRACEBACK,
    MAX_WARNINGS,
    Answer,
    Snapshot,
    StopOrder,
    final_snapshot,
)
from trainshed_api.start_times import StartTimes

EMPTY = Snapshot(time=0.0, attempt=1)


def after(*events: AnyEvent) -> Snapshot:
    """Return what is known after all events."""
    snapshot = EMPTY
    for event in events:
        snapshot = snapshot.after(event)
    return snapshot


def warning(text: str) -> WarningEvent:
    """Return a warning."""
    return WarningEvent(time=1.0, message=text)


def test_before_anything_happens_an_attempt_is_starting() -> None:
    assert EMPTY.state == "Starting"


def test_a_phase_of_the_start_is_known_since_it_began() -> None:
    known = after(Starting(time=1.0, phase="ray"), Starting(time=4.0, phase="workers"))

    assert known.start == StartTimes(phase="workers", since=4.0, ray=3.0)


def test_training_begins_with_workers_and_a_folder() -> None:
    known = after(make_started(resumed_step=90))

    assert (known.state, known.workers, known.folder) == ("Training", 2, "/runs/local/digits")
    assert known.started == 1_700_000_000.0
    assert known.resumed_from
    assert known.resumed_from.step == 90


def test_later_events_keep_what_earlier_ones_said() -> None:
    known = after(make_started(), make_progress(120), make_evaluated(), make_checkpoint(135))

    assert known.progress
    assert known.progress.step == 120
    assert known.metrics == {"loss": 0.31, "valid.loss": 0.2, "valid.accuracy": 0.95}
    assert known.checkpoint == CheckpointRecord(path="attempts/1/ray/c", epoch=3, step=135)


def test_the_end_says_how_and_where_the_time_went() -> None:
    known = after(make_started(), make_finished("Failed", message="it broke"))

    assert (known.state, known.outcome, known.message) == ("Ended", "Failed", "it broke")
    assert known.seconds.training == 10.0
    assert known.report == "/runs/local/digits/report.html"


def test_a_stop_is_a_state() -> None:
    known = after(make_started(), Stopping(time=1.0, reason="Suspended", grace_seconds=60))

    assert (known.state, known.stop_reason) == ("Stopping", "Suspended")


def test_lost_workers_are_counted_and_said() -> None:
    lost = WorkersLost(time=1.0, message="lost worker 1")

    known = after(lost, lost)

    assert (known.workers_lost, known.warnings) == (2, ("lost worker 1", "lost worker 1"))


def test_lost_workers_restart_until_the_next_ones_have_done_a_step() -> None:
    lost, ready = WorkersLost(time=1.0, message="lost worker 1"), WorkersReady(time=2.0)

    assert after(make_progress(), lost, ready).restarting
    assert not after(lost, ready, make_progress()).restarting
    assert not after(lost, make_evaluated()).restarting


def test_who_never_told_of_steps_trains_as_soon_as_its_workers_are_ready() -> None:
    lost, ready = WorkersLost(time=1.0, message="lost worker 1"), WorkersReady(time=2.0)

    assert not after(lost, ready).restarting


def test_only_the_last_warnings_are_kept() -> None:
    known = after(*[warning(str(number)) for number in range(MAX_WARNINGS + 3)])

    assert (known.warnings[0], len(known.warnings)) == ("3", MAX_WARNINGS)


def test_rows_that_are_left_out_are_counted_and_the_first_of_them_named() -> None:
    first = tuple(f"a.csv: byte {number}: it is broken" for number in range(7))
    known = after(
        BadRecords(time=1.0, dataset="train", rows=4, first=first[:4]),
        BadRecords(time=2.0, dataset="valid", rows=1, first=("b.csv: byte 0: " + "x" * 5000,)),
        BadRecords(time=3.0, dataset="train", rows=70, first=first[4:]),
    )

    assert known.bad_records["train"] == BadRecordsRecord(rows=70, first=first[:5])
    assert len(known.bad_records["valid"].first[0]) == 500
    assert Snapshot.model_validate_json(known.to_payload()) == known


def test_a_run_that_is_refused_is_invalid() -> None:
    known = EMPTY.refused("spec.epochs: missing", EXIT_INVALID)

    assert (known.state, known.outcome, known.cause) == ("Ended", "Failed", "Invalid")
    assert (known.exit_code, known.message) == (EXIT_INVALID, "spec.epochs: missing")


@pytest.mark.parametrize("metrics", [{}, {f"metric-{number}" * 20: 1.0 for number in range(999)}])
def test_a_snapshot_is_never_too_long_and_says_how_it_ended(metrics: dict[str, float]) -> None:
    said = [warning("x" * 9_999)] * MAX_WARNINGS
    known = after(*said, make_finished("Failed", message="y" * 9_999, metrics=metrics))

    payload = known.to_payload()

    assert len(payload.encode()) <= MAX_SNAPSHOT_BYTES
    assert Snapshot.model_validate_json(payload).outcome == "Failed"


SEPARATED = EMPTY.model_copy(update={"message": "a\u2028b", "sequence": 3})
LOGS: dict[str, tuple[str, int | None]] = {
    "the last line": (f"words\n{SNAPSHOT_LINE}{EMPTY.to_line()}\n", 0),
    "the last of two": (
        f"{SNAPSHOT_LINE}{EMPTY.to_line()}\n"
        f"{SNAPSHOT_LINE}{EMPTY.model_copy(update={'sequence': 7}).to_line()}\n",
        7,
    ),
    "words of Ray's after it": (f"{SNAPSHOT_LINE}{EMPTY.to_line()}\nshutting down\n", 0),
    "a word with a line's end of another kind": (f"{SNAPSHOT_LINE}{SEPARATED.to_line()}\r\n", 3),
    "an empty log": ("", None),
    "a line that was cut": (f"{SNAPSHOT_LINE}{EMPTY.to_line()[:20]}\n", None),
}


@pytest.mark.parametrize("case", LOGS)
def test_final_snapshot_is_found_in_a_log(case: str) -> None:
    log, want_sequence = LOGS[case]

    found = final_snapshot(log)

    assert (found.sequence if found else None) == want_sequence


def test_answer_may_order_a_stop() -> None:
    text = '{"stop": {"reason": "Suspended", "graceSeconds": 30}}'

    assert Answer.model_validate_json(text).stop == StopOrder(reason="Suspended", grace_seconds=30)
    assert Answer.model_validate_json('{"stop": null}').stop is None


NUMBERS = {
    "time": "1e300",
    "sequence": "-1",
    "progress.time": "NaN",
    "progress.step": "1" + "0" * 30,
    "resumedFrom.epoch": "9" * 19,
    "checkpoint.step": "9" * 19,
    "exitCode": "9" * 19,
    "workersLost": "9" * 19,
    "seconds.lost": "Infinity",
    "wallSeconds": "1e11",
}


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_that_no_status_can_hold_is_refused_by_its_field(field: str) -> None:
    outer, _, inner = field.partition(".")
    rest = '"checkpoint": "c", "path": "p"'
    if inner and inner != "time" and outer == "progress":
        rest += ', "time": 1'
    value = f'{{{rest}, "{inner}": {NUMBERS[field]}}}' if inner else NUMBERS[field]
    others = "" if field == "time" else '"time": 1, '

    with pytest.raises(ValidationError) as refused:
        Snapshot.model_validate_json(f'{{{others}"attempt": 1, "{outer}": {value}}}')

    assert [fault["loc"] for fault in refused.value.errors()] == [tuple(field.split("."))]


def test_texts_without_end_are_cut() -> None:
    long = "x" * 9_000
    told = Snapshot.model_validate(
        {
            "time": 1,
            "attempt": 1,
            "folder": long,
            "resumedFrom": {"checkpoint": long},
            "checkpoint": {"path": long},
            "warnings": [long] * 50,
            "message": long,
            "traceback": f"{long}{long}the cause",
            "result": long,
            "metrics": {f"{number}-{long}": 1.0 for number in range(500)},
        }
    )

    assert told.resumed_from
    assert told.checkpoint
    paths = (told.folder, told.resumed_from.checkpoint, told.checkpoint.path, told.result)
    assert {len(path or "") for path in paths} == {MAX_TEXT}
    assert (len(told.warnings), len(told.warnings[0])) == (MAX_WARNINGS, MAX_MESSAGE)
    assert (len(told.message), len(told.traceback)) == (MAX_MESSAGE, MAX_TRACEBACK)
    assert told.traceback.endswith("the cause")
    assert len(told.metrics) < 500
    assert max(map(len, told.metrics)) < MAX_TEXT


def test_of_many_metrics_of_a_step_as_many_are_kept_as_of_a_run() -> None:
    metrics: dict[str, float | None] = {f"{number}-{'x' * MAX_TEXT}": 1.0 for number in range(500)}
    step = Progress(time=1.0, step=7, metrics=metrics)

    told = Snapshot.model_validate_json(
        Snapshot(time=1.0, attempt=1).model_copy(update={"progress": step}).to_line()
    )

    assert told.progress
    assert told.progress.step == 7
    assert len(told.progress.metrics) == 100
    assert max(map(len, told.progress.metrics)) == 256
    assert Snapshot(time=1.0, attempt=1, progress=None).progress is None


SHARES = {"-5": 0.0, "50": 50.0, "1e300": 100.0, "NaN": None, '"nan"': None, "null": None}


@pytest.mark.parametrize("value", SHARES)
def test_a_share_is_held_between_none_and_all(value: str) -> None:
    text = f'{{"event": "progress", "time": 1, "dataWaitPercent": {value}, "loss": {value}}}'

    told = parse_event(text)

    assert isinstance(told, Progress)
    assert told.data_wait_percent == SHARES[value]
    assert told.loss is None or told.loss == float(value)


def test_what_is_printed_is_held_to_the_same_as_what_is_posted() -> None:
    line = f'{SNAPSHOT_LINE}{{"time": 1e300, "attempt": 1}}'

    assert final_snapshot(line) is None
