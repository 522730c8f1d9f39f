"""What a person and a program see of a run."""

import io
import json
import os
from dataclasses import dataclass

import pytest
from rich.console import Console

from tests.builders_run import (
    make_checkpoint,
    make_evaluated,
    make_finished,
    make_progress,
    make_resume_point,
    make_started,
)
from trainshed.display.choice import LineDisplay, choose_display
from trainshed.display.terminal import TerminalDisplay
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Stopping,
    WarningEvent,
    WorkersLost,
    parse_event,
)

REPORT = "/runs/local/digits/report.html"
BOOSTING = make_started().model_copy(update={"step_name": "round"})
EVENTS: list[AnyEvent] = [
    make_started(),
    make_progress(),
    make_evaluated(),
    make_checkpoint(),
    make_finished(report=REPORT),
]


@dataclass(frozen=True)
class Case:
    """Events and what then stands on the terminal."""

    events: list[AnyEvent]
    want: list[str]


CASES: dict[str, Case] = {
    "a start names run, attempt, workers and rows": Case(
        [make_started()], ["digits", "attempt 1", "2 workers", "train 1,437, valid 360"]
    ),
    "a resume says from where": Case(
        [make_started(2, resumed_step=135)], ["attempt 2", "resumed from step 135"]
    ),
    "progress fills the live lines": Case(
        [make_started(), make_progress()],
        [
            "epoch 3/5",
            "53 %",
            "step 120/225",
            "loss 0.31",
            "5,210 samples/s",
            "data wait 2.0 %",
            "42 s left",
        ],
    ),
    "progress without totals shows what is known": Case(
        [make_progress(epochs=None, steps=None, percent=None, eta_seconds=None, loss=None)],
        ["epoch 3", "step 120 "],
    ),
    "progress without epoch and step shows the rest": Case(
        [make_progress(step=None, epoch=None)], ["53 %", "loss 0.31"]
    ),
    "a checkpoint of a program that counts epochs": Case(
        [CheckpointSaved(time=1, epoch=2, path="/r/c")], ["checkpoint", "epoch 2"]
    ),
    "a checkpoint of a program that counts nothing": Case(
        [CheckpointSaved(time=1, path="/runs/checkpoint_x")], ["checkpoint checkpoint_x"]
    ),
    "an evaluation scrolls by": Case(
        [make_evaluated()], ["evaluated", "epoch 3", "valid.accuracy 0.95"]
    ),
    "rounds of boosting are called rounds": Case(
        [BOOSTING, make_progress(), make_evaluated(), make_checkpoint()],
        ["round 120/225", "evaluated  round 135  valid", "checkpoint round 135"],
    ),
    "a checkpoint scrolls by": Case([make_checkpoint()], ["checkpoint", "step 135", "20 ms"]),
    "lost workers say where training goes on": Case(
        [WorkersLost(time=1, message="rank 1 died", resumed_from=make_resume_point(45))],
        ["workers lost", "rank 1 died", "resuming from step 45", "restarting workers"],
    ),
    "lost workers without a checkpoint begin again": Case(
        [WorkersLost(time=1, message="rank 1 died")], ["resuming from the beginning"]
    ),
    "a warning is text and never markup": Case(
        [WarningEvent(time=1, message="[bold]x[/bold] [/] [link=http://e.test]y")],
        ["warning", "[bold]x[/bold] [/] [link=http://e.test]y"],
    ),
    "a stop says for how long it may take": Case(
        [Stopping(time=1, reason="Interrupted", grace_seconds=60)],
        ["stopping", "Interrupted", "writing a checkpoint within 1 min 00 s", "Ctrl-C again"],
    ),
    "a stop promises no checkpoint where none can be written": Case(
        [Stopping(time=1, reason="Interrupted", grace_seconds=60, until="report")],
        ["ending when the training function reports next, or within 1 min 00 s"],
    ),
    "a stop promises no checkpoint where some workers wait for rows": Case(
        [Stopping(time=1, reason="Interrupted", grace_seconds=60, until="rows")],
        [
            "some workers wait for rows; without them the newest checkpoint stands, and the run "
            "ends within 1 min 00 s"
        ],
    ),
    "a failure shows its message": Case(
        [make_finished("Failed", message="loss is NaN")], ["run Failed after 20 s", "loss is NaN"]
    ),
    "the end shows metrics and where the time went": Case(
        EVENTS,
        [
            "digits Succeeded after 20 s",
            "valid.accuracy   0.9722",
            "waiting for data",
        ],
    ),
    "the end of a run that is not mostly its start shows its goodput": Case(
        [make_finished().model_copy(update={"wall_seconds": 600.0})], ["goodput 50 %"]
    ),
}


def show_on_terminal(events: list[AnyEvent], width: int = 100) -> str:
    """Everything that was on the terminal, without colours."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, record=True)
    display = TerminalDisplay(console=console, clock=lambda: 0.0)
    for event in events:
        display.show(event)
        display.refresh()
    display.close()
    display.close()
    return console.export_text()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_terminal_shows(case: Case) -> None:
    shown = show_on_terminal(case.events)

    assert [words for words in case.want if words not in shown] == []


@pytest.mark.parametrize("width", [20, 40, 200])
def test_last_line_on_a_terminal_is_the_report_in_one_piece(width: int) -> None:
    lines = show_on_terminal([*EVENTS, make_progress()], width).splitlines()

    assert lines[-1].rstrip() == f"report: {REPORT}"


def test_lines_are_the_events_themselves() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    for event in EVENTS:
        display.show(event)

    lines = stream.getvalue().splitlines()

    assert [parse_event(line) for line in lines] == EVENTS
    assert json.loads(lines[-1])["report"] == REPORT


def test_nothing_follows_the_finished_line() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    for event in [*EVENTS, make_progress()]:
        display.show(event)
    display.close()

    assert len(stream.getvalue().splitlines()) == len(EVENTS)


def test_reader_who_leaves_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        display = LineDisplay(stream)
        display.show(make_started())
        display.show(make_progress())


def test_display_fits_what_the_stream_leads_to() -> None:
    pipe = io.StringIO()
    terminal = TeletypeIO()

    lines, live = choose_display(pipe), choose_display(terminal)
    live.close()

    assert isinstance(lines, LineDisplay)
    assert isinstance(live, TerminalDisplay)


class TeletypeIO(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True
