"""A driver that was told to stop tells how it ended even where its storage does not answer."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.checkpoint.beside import beside
from tests.app.jobs.server import serve
from tests.builders import make_run
from tests.builders_run import Shown
from trainshed.attempt import shutdown_deadline
from trainshed.attempt.monitor import AttemptMonitor
from trainshed.attempt.result import AttemptResult
from trainshed.attempt.shutdown_deadline import ShutdownDeadline
from trainshed.attempt.signals import Stop
from trainshed.attempt.snapshot_publisher import ProgressEndpoint, SnapshotPublisher
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import REPORT, RESULT
from trainshed_api.names import EXIT_TERMINATED, SNAPSHOT_LINE, STOPPED, SUCCEEDED
from trainshed_api.snapshot import Snapshot

VERDICT = AttemptResult(STOPPED, "Suspended: stopped after step 7")
SUCCESS = AttemptResult(SUCCEEDED, "")
OBEYED = '{"stop": null}'
RESULT_AT = "runs/digits/result.json"


def make_driver(home: Path, stop: Stop) -> AttemptMonitor:
    """Return a driver whose attempt is behind it, with a spec that gives it no grace."""
    run = make_run(train="tests.app.processes:children", gracePeriodSeconds=0)
    prepared = prepare(run, RunLocation(Disk(home)))
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    attempt.close()
    return AttemptMonitor(prepared, attempt, Shown(), stop)


@dataclass(frozen=True)
class Case:
    """A driver that waits for its storage at its end.

    Args:
        verdict: how its attempt ended.
        written: what it has written by then.
        is_stopped_later: whether the stop comes while it waits, not before.
    """

    verdict: AttemptResult = VERDICT
    written: frozenset[str] = frozenset()
    is_stopped_later: bool = False


CASES = {
    "of a run that was stopped": Case(),
    "of a run that is stopped while it waits": Case(SUCCESS, is_stopped_later=True),
    "that has written its result": Case(written=frozenset({RESULT})),
    "that has written all": Case(written=frozenset({RESULT, REPORT})),
}


def end_without_storage(address: str, home: Path, case: Case) -> None:
    """Be a driver that was stopped, has its grace period behind it, and waits for its storage."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(home / name, os.O_WRONLY | os.O_CREAT), number)
    shutdown_deadline.SECONDS_TO_WRITE = 0.2
    stop = Stop()
    driver = make_driver(home, stop)
    driver.written.update(case.written)
    publisher = SnapshotPublisher(2, ProgressEndpoint(address, "secret"), time.time(), stop)
    with ShutdownDeadline(publisher, stop) as ending:
        if not case.is_stopped_later:
            stop.order("Suspended", 0.0)
        ending.begin(driver, case.verdict, EXIT_TERMINATED, RESULT_AT)
        if case.is_stopped_later:
            stop.order("Suspended", 0.0)
        threading.Event().wait()


@pytest.mark.parametrize("name", CASES)
def test_what_the_storage_holds_up_is_told_before_the_kill(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    with serve(lambda *_: (200, OBEYED)) as server:
        driver = beside(end_without_storage, f"{server.address}/progress", tmp_path, case)
        driver.join(60)

    assert driver.exitcode == EXIT_TERMINATED
    [(_, told)] = server.asked
    snapshot = Snapshot.model_validate_json(told)
    assert (snapshot.state, snapshot.outcome) == ("Ended", case.verdict.outcome)
    assert (snapshot.message, snapshot.exit_code) == (case.verdict.message, EXIT_TERMINATED)
    assert snapshot.result == (RESULT_AT if RESULT in case.written else None)
    assert SNAPSHOT_LINE in (tmp_path / "out").read_text()
    said = (tmp_path / "err").read_text()
    assert [name in said for name in (RESULT, REPORT)] == [
        name not in case.written for name in (RESULT, REPORT)
    ]


def test_who_was_not_stopped_or_is_in_time_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown_deadline, "SECONDS_TO_WRITE", 0.2)
    stop = Stop()
    driver = make_driver(tmp_path, stop)
    publisher = SnapshotPublisher(2, None, time.time(), stop)
    with ShutdownDeadline(publisher, stop) as ending:
        ending.begin(driver, VERDICT, EXIT_TERMINATED, RESULT_AT)
        time.sleep(0.6)
    stop.order("Suspended", 0.0)
    with ShutdownDeadline(publisher, stop) as ending:
        ending.begin(driver, VERDICT, EXIT_TERMINATED, RESULT_AT)
    time.sleep(0.6)
    driver.end_events()


def end_at_the_last_moment(address: str, home: Path) -> None:
    """Be a driver whose storage answers while its end without it is being told."""
    shutdown_deadline.SECONDS_TO_WRITE = 0.2
    stop = Stop()
    stop.order("Suspended", 0.0)
    publisher = SnapshotPublisher(2, ProgressEndpoint(address, "secret"), time.time(), stop)
    with ShutdownDeadline(publisher, stop) as ending:
        ending.begin(make_driver(home, stop), VERDICT, EXIT_TERMINATED, RESULT_AT)
        while not (home / "told").exists():
            time.sleep(0.01)
    (home / "both").touch()


def test_an_end_is_told_by_one_alone(tmp_path: Path) -> None:
    def answer(*_: object) -> tuple[int, str]:
        (tmp_path / "told").touch()
        time.sleep(1)
        return 200, OBEYED

    with serve(answer) as server:
        driver = beside(end_at_the_last_moment, f"{server.address}/progress", tmp_path)
        driver.join(60)

    assert driver.exitcode == EXIT_TERMINATED
    assert len(server.asked) == 1
    assert not (tmp_path / "both").exists()
