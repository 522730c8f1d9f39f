"""A snapshot holds what all events so far said, in a bounded size."""

import pytest

from tests.builders_run import (
    make_checkpoint,
    make_evaluated,
    make_finished,
    make_progress,
    make_started,
)
from trainshed_api.names import EXIT_INVALID, MAX_SNAPSHOT_BYTES, SNAPSHOT_LINE
from trainshed_api.progress import AnyEvent, Stopping, WarningEvent, WorkersLost
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import MAX_WARNINGS, Answer, Snapshot, StopOrder, final_snapshot

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


def test_only_the_last_warnings_are_kept() -> None:
    known = after(*[warning(str(number)) for number in range(MAX_WARNINGS + 3)])

    assert (known.warnings[0], len(known.warnings)) == ("3", MAX_WARNINGS)


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


LOGS: dict[str, tuple[str, int | None]] = {
    "the last line": (f"words\n{SNAPSHOT_LINE}{EMPTY.to_line()}\n", 0),
    "the last of two": (
        f"{SNAPSHOT_LINE}{EMPTY.to_line()}\n"
        f"{SNAPSHOT_LINE}{EMPTY.model_copy(update={'sequence': 7}).to_line()}\n",
        7,
    ),
    "words of Ray's after it": (f"{SNAPSHOT_LINE}{EMPTY.to_line()}\nshutting down\n", 0),
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
