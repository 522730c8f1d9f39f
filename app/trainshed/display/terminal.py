"""A live line of progress for a person, with what happened scrolling above it."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trainshed.display.formatting import (
    say_count,
    say_duration,
    say_metrics,
    say_number,
    say_percent,
    say_place,
    say_resume,
    say_stop,
    say_whole_seconds,
)
from trainshed.display.start_phases import say_start, start_seconds
from trainshed.display.summary import summarise
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    Finished,
    Progress,
    Started,
    Starting,
    StepName,
    Stopping,
    WarningEvent,
    WorkersLost,
)
from trainshed_api.start_times import START_PHASES

# Only the spinner moves between events: more often would cost the training a core's attention.
REFRESHES_PER_SECOND = 4


class TerminalDisplay:
    """Shows a run on a terminal. Names and messages of users are text, never markup."""

    def __init__(
        self,
        stream: TextIO | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._opened = clock()
        self._console = console or Console(file=stream)
        self._started: Started | None = None
        self._latest: Progress | None = None
        self._doing = "starting"
        self._start: list[AnyEvent] = []
        self._finished = False
        self._spinner = Spinner("dots")
        self._live = Live(
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            # Whoever sent standard error elsewhere wants it there and not on the terminal.
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._render,
        )
        self._live.start()

    def show(self, event: AnyEvent) -> None:
        """Show one event; the finished event ends the live part and prints the summary."""
        if self._finished:
            return
        if isinstance(event, Starting):
            self._start.append(event)
            self._doing = START_PHASES[event.phase].doing
        elif isinstance(event, Started):
            self._start.append(event)
            self._started, self._doing = event, "training"
            self._say(_say_start(event))
        elif isinstance(event, Progress):
            self._say_phases(event)
            self._latest, self._doing = event, "training"
        elif isinstance(event, Finished):
            self._finish(event)
        else:
            self._show_happening(event)

    def refresh(self) -> None:
        """Draw the live part now instead of at its next turn."""
        self._live.refresh()

    def close(self) -> None:
        """Stop the live part and leave the terminal as it was."""
        self._live.stop()

    def _show_happening(self, event: AnyEvent) -> None:
        if isinstance(event, Stopping):
            self._doing = "stopping"
        elif isinstance(event, WorkersLost):
            self._doing, self._latest = "restarting workers", None
        if line := say_happening(event, self._step_name):
            self._say(line)

    def _say_phases(self, first: Progress) -> None:
        """Say once how long each phase of the start took."""
        start, self._start = self._start, []
        if seconds := start_seconds([*start, first]):
            whole = say_duration(sum(seconds.values()))
            self._say(Text(f"  started in {whole}: {say_start(seconds)}", style="dim"))

    @property
    def _step_name(self) -> StepName:
        return self._started.step_name if self._started else "step"

    def _finish(self, event: Finished) -> None:
        self._finished = True
        self.close()
        name = self._started.run if self._started else "run"
        self._console.print(summarise(name, event))
        if event.report:
            # Unwrapped and last, so that it can be clicked, copied and cut out by `tail -1`.
            self._say(Text(f"report: {event.report}"))

    def _say(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)

    def _render(self) -> RenderableType:
        head = Table.grid(padding=(0, 2))
        name = self._started.run if self._started else ""
        head.add_row(
            self._spinner,
            Text(name, style="bold"),
            Text(self._doing, style="cyan"),
            Text(say_whole_seconds(self._clock() - self._opened), style="dim"),
        )
        return Group(
            head, *([_progress_lines(self._latest, self._step_name)] if self._latest else [])
        )


def say_happening(event: AnyEvent, step_name: StepName) -> Text | None:
    """The line that scrolls by for one event; None for those that only move the live part."""
    if isinstance(event, Evaluated):
        step = event.step if step_name == "round" else None
        where = say_place(event.epoch, step, step_name)
        words = [where, *(["  "] if where else []), say_metrics(event.metrics)]
        return Text.assemble(("  evaluated  ", "green"), *words)
    if isinstance(event, CheckpointSaved):
        epoch = event.epoch if event.step is None else None
        where = say_place(epoch, event.step, step_name) or Path(event.path).name
        parts: list[str | tuple[str, str]] = [("  checkpoint ", "blue"), where]
        if event.blocked_seconds is not None:
            parts.append((f"  paused training for {say_duration(event.blocked_seconds)}", "dim"))
        return Text.assemble(*parts)
    if isinstance(event, WorkersLost):
        back = say_resume(event.resumed_from, step_name)
        return Text.assemble(
            ("  workers lost  ", "bold yellow"), event.message, f"  resuming from {back}"
        )
    if isinstance(event, WarningEvent):
        return Text.assemble(("  warning  ", "yellow"), event.message)
    if isinstance(event, Stopping):
        again = "; Ctrl-C again ends it at once" if event.reason == "Interrupted" else ""
        return Text.assemble(
            ("  stopping  ", "bold yellow"), f"{event.reason}, {say_stop(event)}{again}"
        )
    return None


def _say_start(event: Started) -> Text:
    rows = ", ".join(f"{name} {count:,}" for name, count in event.rows.items())
    parts = [f"attempt {event.attempt}", f"{event.workers} worker{'s' * (event.workers != 1)}"]
    if rows:
        parts.append(f"rows: {rows}")
    if event.resumed_from:
        parts.append(f"resumed from {say_resume(event.resumed_from, event.step_name)}")
    return Text.assemble((event.run, "bold"), "  ", " · ".join(parts))


def _progress_lines(event: Progress, step_name: StepName) -> RenderableType:
    bar = Table.grid(padding=(0, 2))
    cells: list[RenderableType] = []
    if event.epoch is not None and step_name == "step":
        of = f"/{event.epochs}" if event.epochs else ""
        cells.append(Text(f"epoch {event.epoch}{of}"))
    if event.percent is not None:
        cells.append(ProgressBar(total=100, completed=event.percent, width=30))
        cells.append(Text(f"{event.percent:.0f} %"))
    if event.eta_seconds is not None:
        cells.append(Text(f"{say_duration(event.eta_seconds)} left"))
    bar.add_row(*cells)
    figures = []
    if event.step is not None:
        of = f"/{event.steps:,}" if event.steps else ""
        figures.append(f"{step_name} {event.step:,}{of}")
    if event.loss is not None:
        figures.append(f"loss {say_number(event.loss)}")
    if event.samples_per_second is not None:
        figures.append(f"{say_count(event.samples_per_second)} samples/s")
    if event.data_wait_percent is not None:
        figures.append(f"data wait {say_percent(event.data_wait_percent)}")
    return Group(bar, Text("   ".join(figures)))
