"""The driver shows all events and keeps what the disk takes."""

import io
import sys
from pathlib import Path

import pytest

from tests.app.builders_checkpoint import files_of_at_most
from tests.builders import make_run
from tests.builders_run import make_finished, make_progress
from trainshed import atomic
from trainshed.driver import Driver
from trainshed.ending import Verdict, write_ending
from trainshed.folder import Attempt
from trainshed.output import kept
from trainshed.preflight import Prepared, prepare
from trainshed.provenance import run_record
from trainshed.signals import Stop
from trainshed_api.progress import AnyEvent, Finished, Progress, WarningEvent, parse_event


class Display:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def show(self, event: AnyEvent) -> None:
        """Keep it."""
        self.events.append(event)

    def close(self) -> None:
        """Do nothing."""


def make_driver(home: Path) -> tuple[Prepared, Attempt, Driver, Display]:
    prepared = prepare(make_run(train="tests.app.processes:children"), home, in_cluster=False)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    attempt.close()
    record = run_record(prepared, home)
    atomic.write_text(prepared.folder.record, record.model_dump_json(by_alias=True))
    display = Display()
    return prepared, attempt, Driver(prepared, attempt, display, Stop(), io.StringIO()), display


def warnings_of(display: Display) -> list[str]:
    return [event.message for event in display.events if isinstance(event, WarningEvent)]


def test_events_are_shown_and_kept(tmp_path: Path) -> None:
    _, attempt, driver, display = make_driver(tmp_path)
    events = [make_progress(step) for step in (1, 2)]
    for event in events:
        driver.show(event)
    driver.close(make_finished())

    lines = (attempt.folder / "metrics.jsonl").read_text().splitlines()
    assert [parse_event(line) for line in lines] == events
    assert display.events == [*events, make_finished()]


def test_a_full_disk_is_said_once_and_later_events_are_kept_again(tmp_path: Path) -> None:
    _, attempt, driver, display = make_driver(tmp_path)
    driver.show(make_progress(1))
    with files_of_at_most(100):
        driver.show(make_progress(2))
        driver.show(make_progress(3))
    driver.show(make_progress(4))
    driver.close(make_finished())

    metrics = attempt.folder / "metrics.jsonl"
    assert warnings_of(display) == [f"{metrics} misses events: [Errno 27] File too large"]
    steps = [event.step for event in display.events if isinstance(event, Progress)]
    assert steps == [1, 2, 3, 4]
    assert parse_event(metrics.read_text().splitlines()[-1]) == make_progress(4)


def test_an_end_without_room_for_result_and_report_is_still_an_end(tmp_path: Path) -> None:
    prepared, attempt, driver, display = make_driver(tmp_path)
    with files_of_at_most(100):
        write_ending(prepared, attempt, driver, Verdict("Succeeded", ""), started=0.0)

    last = display.events[-1]
    assert isinstance(last, Finished)
    assert (last.outcome, last.report) == ("Succeeded", None)
    folder = prepared.folder.path
    assert [line.split(":")[0] for line in warnings_of(display)] == [
        f"no {folder / 'result.json'}",
        f"{attempt.folder / 'metrics.jsonl'} misses events",
        f"no {folder / 'report.html'}",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["attempts", "run.json"]


def test_a_file_that_finds_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    atomic.write_text(file, "old")
    with files_of_at_most(2), pytest.raises(OSError, match="too large"):
        atomic.write_text(file, "a longer text")

    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert file.read_text() == "old"


def test_what_is_printed_is_read_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kept(tmp_path / "driver.log"):
        print("to one")
        print("to the other", file=sys.stderr)

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "to one\nto the other\n")
    assert (tmp_path / "driver.log").read_text() == said.err


def test_a_log_that_finds_no_room_keeps_nobody_from_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with files_of_at_most(2), kept(tmp_path / "driver.log"):
        print("what is printed", flush=True)

    assert capsys.readouterr().err == "what is printed\n"
