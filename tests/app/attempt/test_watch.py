"""The driver shows all events and keeps what the disk takes."""

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import ray.train
from pydantic import JsonValue
from ray.exceptions import ActorDiedError
from ray.train.v2._internal.execution.training_report import _TrainingReport

from tests.app.builders_checkpoint import files_of_at_most
from tests.builders import make_run
from tests.builders_run import Shown, make_checkpoint, make_finished, make_progress
from trainshed.attempt.finish import write_ending
from trainshed.attempt.launch import exit_code
from trainshed.attempt.monitor import AttemptMonitor
from trainshed.attempt.output import kept
from trainshed.attempt.provenance import run_record
from trainshed.attempt.result import AttemptResult
from trainshed.attempt.signals import FENCED, Stop
from trainshed.coordinator import actor as runtime
from trainshed.coordinator.actor import View
from trainshed.coordinator.run_state import Failure, FunctionResult, Reported
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.ray_train.report_relay import ReportRelay
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import LOG, METRICS, RECORD, RESULT, ClaimedAttempt
from trainshed_api.names import EXIT_TRY_AGAIN, FAILED, INFRASTRUCTURE
from trainshed_api.progress import (
    CheckpointSaved,
    Event,
    Finished,
    Progress,
    Stopping,
    WarningEvent,
    parse_event,
)
from trainshed_api.records import ResultRecord

if TYPE_CHECKING:
    from trainshed.coordinator import actor


class Work:
    """Goes on until it was looked at so often."""

    error: Exception | None = None

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_alive(self) -> bool:
        """Count down."""
        self.looks -= 1
        return self.looks >= 0

    def join(self, timeout: float | None = None) -> None:
        """Do not wait."""


class Coordinator:
    """Shows one view after the other, the last one for ever."""

    def __init__(self, *views: View) -> None:
        self.views = list(views)
        self.stopped: list[str] = []

    def look(self) -> View:
        """Return the next view."""
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    def stop(self, reason: str) -> None:
        """Remember it."""
        self.stopped.append(reason)


def make_view(**changes: object) -> View:
    nothing = View(0.0, [], 1, None, None, Reported(), {}, ())
    return replace(nothing, **changes)  # type: ignore[arg-type]  # fields by name


def make_reports(path: str, *, resumed: bool = False) -> View:
    """Return what is seen when a function reports a checkpoint with its loss."""
    saved = CheckpointSaved(time=1.0, epoch=1, path=path)
    kept = Reported(epoch=1, metrics={"loss": 1.0}, checkpoint=(path, 1, None))
    return make_view(events=[] if resumed else [saved], reported=kept)


def make_driver(
    home: Path, stop: Stop | None = None, **spec: JsonValue
) -> tuple[Prepared, ClaimedAttempt, AttemptMonitor, Shown]:
    run = make_run(train="tests.app.processes:children", **spec)
    prepared = prepare(run, RunLocation(Disk(home)))
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    attempt.close()
    record = run_record(prepared, home, started=0.0)
    prepared.folder.at.write(RECORD, record.model_dump_json(by_alias=True).encode())
    display = Shown()
    driver = AttemptMonitor(prepared, attempt, display, stop or Stop())
    return prepared, attempt, driver, display


def stopping(
    home: Path, asked: signal.Signals = signal.SIGINT, **spec: JsonValue
) -> tuple[AttemptMonitor, Shown]:
    """Return the driver of a run that was asked to stop, and its display."""
    stop = Stop()
    stop.ask(asked)
    *_, driver, display = make_driver(home, stop, **spec)
    return driver, display


def watch(driver: AttemptMonitor, coordinator: Coordinator, looks: int = 3) -> AttemptResult:
    verdict = driver.watch(cast("actor.Coordinator", coordinator), Work(looks))
    driver.close(make_finished())
    return verdict


def warnings_of(display: Shown) -> list[str]:
    return [event.message for event in display.events if isinstance(event, WarningEvent)]


def test_events_are_shown_and_kept(tmp_path: Path) -> None:
    _, attempt, driver, display = make_driver(tmp_path)
    events = [make_progress(step) for step in (1, 2)]
    for event in events:
        driver.show(event)
    driver.close(make_finished())

    assert [parse_event(line) for line in attempt.folder.lines(METRICS)] == events
    assert display.events == [*events, make_finished()]


def test_a_full_disk_is_said_once_and_later_events_are_kept_again(tmp_path: Path) -> None:
    _, attempt, driver, display = make_driver(tmp_path)
    driver.show(make_progress(1))
    with files_of_at_most(100):
        driver.show(make_progress(2))
        driver.show(make_progress(3))
    driver.show(make_progress(4))
    driver.close(make_finished())

    metrics = attempt.folder / METRICS
    assert warnings_of(display) == [f"{metrics} misses events: [Errno 27] File too large"]
    steps = [event.step for event in display.events if isinstance(event, Progress)]
    assert steps == [1, 2, 3, 4]
    assert parse_event(list(attempt.folder.lines(METRICS))[-1]) == make_progress(4)


def test_an_end_without_room_for_result_and_report_is_still_an_end(tmp_path: Path) -> None:
    prepared, attempt, driver, display = make_driver(tmp_path)
    with files_of_at_most(100):
        write_ending(driver, AttemptResult("Succeeded", ""), started=0.0)

    last = display.events[-1]
    assert isinstance(last, Finished)
    assert (last.outcome, last.report) == ("Succeeded", None)
    folder = prepared.folder.at
    assert [line.split(":")[0] for line in warnings_of(display)] == [
        f"no {folder / 'result.json'}",
        f"{attempt.folder / METRICS} misses events",
        f"no {folder / 'report.html'}",
    ]
    assert folder.names() == ["attempts", "run.json"]


def test_a_file_that_finds_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    folder.write("result.json", b"old")
    with files_of_at_most(2), pytest.raises(OSError, match="too large"):
        folder.write("result.json", b"a longer text")

    assert folder.names() == ["result.json"]
    assert folder.read("result.json") == b"old"


def test_what_is_printed_is_read_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kept(Disk(tmp_path).append(LOG)):
        print("to one")
        print("to the other", file=sys.stderr)

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "to one\nto the other\n")
    assert "".join(Disk(tmp_path).lines(LOG)) == said.err


def test_a_log_that_finds_no_room_keeps_nobody_from_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with files_of_at_most(2), kept(Disk(tmp_path).append(LOG)):
        print("what is printed", flush=True)

    assert capsys.readouterr().err == "what is printed\n"


# ------------------------------------------------------------- how it ended

FAILURE = Failure(1, 6, "KeyError: 'lable'", "the user's traceback")
ENDING = FunctionResult(True, 1, 6, {}, None, None, None)
BEST: JsonValue = {"best": {"metric": "valid.accuracy", "mode": "max"}}


def test_work_that_comes_to_its_end_succeeded(tmp_path: Path) -> None:
    _, _, driver, _ = make_driver(tmp_path)

    assert watch(driver, Coordinator(make_view())) == AttemptResult("Succeeded", "")


def test_a_failure_of_the_users_is_the_verdict(tmp_path: Path) -> None:
    _, _, driver, _ = make_driver(tmp_path)
    verdict = watch(driver, Coordinator(make_view(), make_view(failure=FAILURE)))

    assert verdict == AttemptResult(
        "Failed", "KeyError: 'lable' (worker 1, step 6)", "the user's traceback", "Application"
    )


def test_a_stop_is_passed_on_once_and_its_step_is_said(tmp_path: Path) -> None:
    driver, display = stopping(tmp_path, signal.SIGTERM)
    coordinator = Coordinator(make_view(), make_view(), make_view(ending=ENDING))

    assert watch(driver, coordinator) == AttemptResult(
        "Stopped", "Terminated: stopped after step 6"
    )
    assert coordinator.stopped == ["Terminated"]
    assert [e.grace_seconds for e in display.events if isinstance(e, Stopping)] == [60]


def test_a_stop_whose_checkpoint_is_not_on_storage_says_so(tmp_path: Path) -> None:
    driver, _ = stopping(tmp_path, signal.SIGTERM)
    ending = replace(ENDING, unsaved="step 6: the credentials have ended")

    verdict = watch(driver, Coordinator(make_view(), make_view(ending=ending)))
    assert verdict.message == (
        "Terminated: stopped after step 6; no checkpoint of step 6: the credentials have ended"
    )


def test_no_end_within_the_grace_period_is_one(tmp_path: Path) -> None:
    driver, _ = stopping(tmp_path, gracePeriodSeconds=0)

    assert watch(driver, Coordinator(make_view()), looks=10**9) == AttemptResult(
        "Stopped",
        "Interrupted: no end within gracePeriodSeconds (0); this attempt wrote no checkpoint",
    )


def test_a_stop_before_the_workers_began_ends_before_training(tmp_path: Path) -> None:
    driver, display = stopping(tmp_path)
    coordinator = Coordinator(make_view(groups=0))

    assert watch(driver, coordinator, looks=10**9) == AttemptResult(
        "Stopped", "Interrupted: stopped before training began"
    )
    assert [e.until for e in display.events if isinstance(e, Stopping)] == ["end"]


def test_a_second_signal_ends_at_once_with_a_result_that_names_the_newest_checkpoint(
    tmp_path: Path,
) -> None:
    stop = Stop()
    prepared, _, driver, _ = make_driver(tmp_path, stop)
    stop.ask(signal.SIGINT)
    stop.ask(signal.SIGINT)
    seen: list[Event] = [make_progress(7), make_checkpoint(4, "c4")]
    coordinator = cast("actor.Coordinator", Coordinator(make_view(events=seen), make_view()))
    verdict = driver.watch(coordinator, Work(10**9))
    write_ending(driver, verdict, started=0.0)

    message = (
        "Interrupted: ended at once by a second signal; the newest checkpoint is that of step 4"
    )
    assert verdict == AttemptResult("Stopped", message)
    result = ResultRecord.model_validate_json(prepared.folder.at.read(RESULT))
    assert (result.outcome, result.message, result.step) == ("Stopped", message, 7)
    assert prepared.folder.at.names() == ["attempts", "report.html", "result.json", "run.json"]


REPORTED = Reported(step=7, metrics={"loss": 0.5})
SAVED = CheckpointSaved(time=1.0, epoch=1, path="c1")
WAYS: dict[str, tuple[View, str]] = {
    "the runtime writes a checkpoint": (make_view(saves=True), "checkpoint"),
    "some workers wait for rows": (make_view(saves=True, waiting_ranks=(1,)), "rows"),
    "the function reports and saves nothing": (make_view(reported=REPORTED), "report"),
    "the function reports checkpoints": (
        make_view(reported=REPORTED, events=[SAVED]),
        "reportedCheckpoint",
    ),
    "nothing is known of it": (make_view(), "end"),
}


@pytest.mark.parametrize("case", WAYS)
def test_a_stop_says_what_the_run_waits_for(case: str, tmp_path: Path) -> None:
    view, want = WAYS[case]
    driver, display = stopping(tmp_path)
    watch(driver, Coordinator(view))

    assert [e.until for e in display.events if isinstance(e, Stopping)] == [want]


def test_workers_that_begin_to_wait_for_rows_after_a_stop_are_said_once(tmp_path: Path) -> None:
    driver, display = stopping(tmp_path)
    waiting = make_view(saves=True, waiting_ranks=(1,))
    watch(driver, Coordinator(make_view(saves=True), waiting, make_view(saves=True), waiting))

    assert [e.until for e in display.events if isinstance(e, Stopping)] == ["checkpoint", "rows"]


def test_a_stop_that_waited_for_rows_in_vain_says_so(tmp_path: Path) -> None:
    driver, _ = stopping(tmp_path, gracePeriodSeconds=0)
    view = make_view(saves=True, waiting_ranks=(1, 3), events=[make_checkpoint(4, "c4")])

    assert watch(driver, Coordinator(view), looks=10**9).message == (
        "Interrupted: no end within gracePeriodSeconds (0), because rows for rank 1, 3 did not "
        "arrive; the newest checkpoint is that of step 4"
    )


PLACES: dict[str, tuple[Reported, str]] = {
    "its step": (Reported(epoch=2, step=7), "after step 7"),
    "its epoch where it counts no steps": (Reported(epoch=2), "after epoch 2"),
    "a report that counts nothing": (Reported(metrics={"loss": 0.5}), "after a report"),
    "nothing at all": (Reported(), "before the first step"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_function_of_its_own_is_stopped_where_it_says(case: str, tmp_path: Path) -> None:
    reported, want = PLACES[case]
    driver, _ = stopping(tmp_path)
    uncounted = FunctionResult(True, 0, 0, {}, None, None, None)
    view = make_view(reported=reported, ending=uncounted)

    assert watch(driver, Coordinator(view)).message == f"Interrupted: stopped {want}"


def test_a_function_that_starts_over_is_not_taken_for_one_that_saved(tmp_path: Path) -> None:
    driver, _ = stopping(tmp_path)
    saved = replace(make_reports("c15"), reported=Reported(step=15, checkpoint=("c15", 1, 15)))
    views = (make_reports("c210", resumed=True), make_view(), saved)

    assert watch(driver, Coordinator(*views)).message == "Interrupted: stopped after step 15"


def test_a_grace_period_begins_when_the_stop_is_asked_for_not_when_it_is_seen(
    tmp_path: Path,
) -> None:
    stop = Stop()
    stop.order("Suspended", 60)
    assert stop.asked_at is not None
    stop.asked_at -= 61  # while Ray was started
    _, _, driver, _ = make_driver(tmp_path, stop)

    assert watch(driver, Coordinator(make_view()), looks=10**9) == AttemptResult(
        "Stopped",
        "Suspended: no end within gracePeriodSeconds (60); this attempt wrote no checkpoint",
    )


def test_the_controller_says_how_long_a_stop_may_take(tmp_path: Path) -> None:
    stop = Stop()
    stop.order("Suspended", 0)
    _, _, driver, display = make_driver(tmp_path, stop, gracePeriodSeconds=600)

    assert watch(driver, Coordinator(make_view()), looks=10**9) == AttemptResult(
        "Stopped",
        "Suspended: no end within gracePeriodSeconds (0); this attempt wrote no checkpoint",
    )
    assert [e.grace_seconds for e in display.events if isinstance(e, Stopping)] == [0]


def test_an_attempt_that_was_superseded_ends_at_once_and_asks_nobody(tmp_path: Path) -> None:
    stop = Stop()
    stop.order(FENCED, 0)
    _, _, driver, _ = make_driver(tmp_path, stop)
    coordinator = Coordinator(make_view())

    assert watch(driver, coordinator, looks=10**9) == AttemptResult(
        "Stopped", "Superseded: another attempt has taken over"
    )
    assert coordinator.stopped == []


def test_an_attempt_that_was_overtaken_ends_where_no_controller_tells_it(tmp_path: Path) -> None:
    _, attempt, driver, _ = make_driver(tmp_path)
    attempt.is_overtaken = True
    coordinator = Coordinator(make_view())

    assert watch(driver, coordinator, looks=10**9) == AttemptResult(
        "Stopped", "Superseded: another attempt has taken over"
    )


def test_only_the_last_attempt_writes_beside_the_attempts(tmp_path: Path) -> None:
    prepared, attempt, driver, _ = make_driver(tmp_path)
    prepared.folder.claim(prepared.spec_hash, fresh=False, number=2).close()
    write_ending(driver, AttemptResult("Succeeded", ""), started=0.0)

    assert prepared.folder.at.names() == ["attempts", "run.json"]
    *_, last = attempt.folder.lines(METRICS)
    assert isinstance(parse_event(last), Finished)


CRASHES: dict[str, tuple[Exception, str]] = {
    "a worker that was lost too often": (RuntimeError("lost worker 0"), "Infrastructure"),
    "a worker that had no memory left": (
        RuntimeError("ray.exceptions.OutOfMemoryError: Task was killed"),
        "OutOfMemory",
    ),
}


@pytest.mark.parametrize("case", CRASHES)
def test_whose_fault_an_end_was_is_said(case: str, tmp_path: Path) -> None:
    error, want = CRASHES[case]
    _, _, driver, _ = make_driver(tmp_path)
    work = Work(1)
    work.error = error
    verdict = driver.watch(cast("actor.Coordinator", Coordinator(make_view())), work)
    driver.close(make_finished())

    assert (verdict.outcome, verdict.cause) == ("Failed", want)


def test_checkpoints_that_nobody_can_rank_end_a_run_at_the_first_one(tmp_path: Path) -> None:
    _, _, driver, _ = make_driver(tmp_path, checkpoint=BEST)
    verdict = watch(driver, Coordinator(make_view(), make_reports("c1")), looks=10**9)
    want = "spec.checkpoint.best.metric: got valid.accuracy; expected a reported metric: loss"

    assert verdict == AttemptResult("Failed", want, want, "Application")


def test_what_a_function_of_ray_trains_alone_reports_is_ranked_or_the_end(tmp_path: Path) -> None:
    _, _, driver, display = make_driver(tmp_path, checkpoint=BEST)
    coordinator = runtime.Coordinator(started=0.0)
    saved = _TrainingReport(
        ray.train.Checkpoint("/ray/checkpoint_1"), {"epoch": 1, "loss": 1.0}, validation=False
    )
    ReportRelay(coordinator).after_report(saved, [saved.metrics])
    verdict = driver.watch(coordinator, Work(looks=10**9))
    driver.close(make_finished())

    want = "spec.checkpoint.best.metric: got valid.accuracy; expected a reported metric: loss"
    assert verdict == AttemptResult("Failed", want, want, "Application")
    assert [type(event) for event in display.events] == [Progress, CheckpointSaved, Finished]


def test_a_run_that_failed_left_word_of_how_far_it_came(tmp_path: Path) -> None:
    prepared, _, driver, _ = make_driver(tmp_path)
    seen: list[Event] = [make_progress(4, metrics={"loss": 0.5}), make_checkpoint(4, "c4")]
    coordinator = Coordinator(make_view(events=seen), make_view(failure=FAILURE))
    verdict = driver.watch(cast("actor.Coordinator", coordinator), Work(3))
    write_ending(driver, verdict, started=0.0)

    result = ResultRecord.model_validate_json(prepared.folder.at.read(RESULT))
    assert (result.outcome, result.step, result.metrics) == ("Failed", 6, {"loss": 0.5})
    assert result.checkpoint
    assert (result.checkpoint.path, result.checkpoint.step) == ("c4", 4)


def test_a_checkpoint_that_was_resumed_from_is_not_judged(tmp_path: Path) -> None:
    _, _, driver, _ = make_driver(tmp_path, checkpoint=BEST)
    verdict = watch(driver, Coordinator(make_reports("c1", resumed=True)))

    assert verdict.outcome == "Succeeded"


def test_a_lost_coordinator_is_a_fault_of_the_infrastructure_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    *_, driver, _ = make_driver(tmp_path)

    verdict = watch(driver, Lost(make_reports("runs/1/checkpoint")))

    assert verdict == AttemptResult(
        FAILED,
        "the coordinator process of the run was lost; the newest checkpoint is that of epoch 1. "
        "Run the same command again to resume",
        cause=INFRASTRUCTURE,
    )
    assert exit_code(verdict, Stop()) == EXIT_TRY_AGAIN


class Lost(Coordinator):
    """Is lost after the views that it has."""

    def look(self) -> View:
        """Return the next view.

        Raises:
            ActorDiedError: when there is none.
        """
        if not self.views:
            raise ActorDiedError
        return self.views.pop(0)
