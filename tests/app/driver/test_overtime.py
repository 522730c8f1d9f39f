"""A driver that was told to stop tells how it ended even where its storage does not answer."""

import os
import threading
import time
from pathlib import Path

import pytest

from tests.app.checkpoint.beside import beside
from tests.app.jobs.server import serve
from trainshed.driver import overtime
from trainshed.driver.overtime import Overtime
from trainshed.driver.push import Pusher, Target
from trainshed.driver.signals import Stop
from trainshed.driver.verdict import Verdict
from trainshed_api.names import EXIT_TERMINATED, SNAPSHOT_LINE, STOPPED
from trainshed_api.snapshot import Snapshot

VERDICT = Verdict(STOPPED, "Suspended: stopped after step 7")


def end_without_storage(address: str, said: Path) -> None:
    """Be a driver that was stopped, has its grace period behind it, and waits for its storage."""
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 1)
    overtime.SECONDS_TO_WRITE = 0.2
    stop = Stop()
    stop.order("Suspended", 0.0)
    pusher = Pusher(2, Target(address, "secret"), time.time(), stop)
    with Overtime(pusher, stop) as ending:
        ending.begin(VERDICT, EXIT_TERMINATED, 0.0)
        threading.Event().wait()


def test_what_the_storage_holds_up_is_told_before_the_kill(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with serve(lambda *_: (200, '{"stop": null}')) as server:
        driver = beside(end_without_storage, f"{server.address}/progress", said)
        driver.join(60)

    assert driver.exitcode == EXIT_TERMINATED
    [(_, told)] = server.asked
    snapshot = Snapshot.model_validate_json(told)
    assert (snapshot.state, snapshot.outcome) == ("Ended", STOPPED)
    assert (snapshot.message, snapshot.exit_code) == (VERDICT.message, EXIT_TERMINATED)
    assert SNAPSHOT_LINE in said.read_text()


def test_who_was_not_stopped_or_is_in_time_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtime, "SECONDS_TO_WRITE", 0.2)
    stop = Stop()
    pusher = Pusher(2, None, time.time(), stop)
    with Overtime(pusher, stop) as ending:
        ending.begin(VERDICT, EXIT_TERMINATED, 0.0)
        time.sleep(0.4)
    stop.order("Suspended", 0.0)
    with Overtime(pusher, stop) as ending:
        ending.begin(VERDICT, EXIT_TERMINATED, 0.0)
    time.sleep(0.4)
