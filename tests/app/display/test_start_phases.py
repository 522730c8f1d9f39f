"""How long each phase of a start took, by its events."""

import io
from pathlib import Path

from rich.console import Console

from tests.builders_run import RunFolderBuilder
from trainshed.display.start_phases import say_start, start_seconds
from trainshed.display.terminal import TerminalDisplay
from trainshed.report import write_report
from trainshed.storage.disk import Disk
from trainshed_api.progress import AnyEvent, Progress, Started, Starting

EVENTS: list[AnyEvent] = [
    Starting(time=0.0, phase="imports"),
    Starting(time=2.0, phase="planning"),
    Starting(time=5.0, phase="ray"),
    Starting(time=14.0, phase="workers"),
    Started(time=34.0, run="digits", attempt=1, workers=2, folder="f"),
    Progress(time=48.0, step=1),
    Progress(time=49.0, step=2),
]
SAID = "imports 2.0 s, planning 3.0 s, Ray 9.0 s, workers 20 s, first step 14 s"


def test_phases_end_with_the_first_step() -> None:
    assert say_start(start_seconds(EVENTS)) == SAID
    assert start_seconds(EVENTS[:3]) == {"imports": 2.0, "planning": 3.0}


def test_attempts_of_earlier_releases_have_no_phases() -> None:
    assert start_seconds(EVENTS[4:]) == {}


def test_a_terminal_says_once_what_the_start_took() -> None:
    stream = io.StringIO()
    display = TerminalDisplay(console=Console(file=stream, width=120))
    for event in EVENTS:
        display.show(event)
    display.close()

    assert stream.getvalue().count(f"started in 48 s: {SAID}") == 1


def test_a_report_says_what_the_start_took(tmp_path: Path) -> None:
    folder = RunFolderBuilder(attempts=[EVENTS]).write(Disk(tmp_path))
    write_report(folder)

    assert SAID in folder.read("report.html").decode()
