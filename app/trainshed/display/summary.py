"""What a person reads when a run has ended: how, with which metrics, and where the time went."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainshed.display.formatting import say_duration, say_number, say_percent
from trainshed.display.time_budget import LEAST_SECONDS_FOR_GOODPUT, split_time
from trainshed_api.progress import Finished

OUTCOME_STYLES = {"Succeeded": "bold green", "Failed": "bold red"}
BAR_WIDTH = 24


def summarise(name: str, event: Finished) -> RenderableType:
    """The outcome, the metrics and the time budget of a run."""
    style = OUTCOME_STYLES.get(event.outcome, "bold yellow")
    head = Text.assemble(
        (f"{name} {event.outcome}", style), f" after {say_duration(event.wall_seconds)}"
    )
    parts: list[RenderableType] = [Text(), head]
    if event.message:
        parts.append(Text(event.message))
    if event.metrics:
        parts += [Text(), _metrics_table(event)]
    if event.seconds.total() > 0:
        parts += [Text(), _time_table(event)]
    if event.goodput is not None and event.wall_seconds >= LEAST_SECONDS_FOR_GOODPUT:
        parts.append(Text(f"goodput {say_percent(100 * event.goodput)}", style="dim"))
    return Group(*parts, Text())


def _metrics_table(event: Finished) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(justify="right")
    for name, value in event.metrics.items():
        table.add_row(Text(name), Text(say_number(value), style="bold"))
    return table


def _time_table(event: Finished) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    for part in split_time(event.seconds.by_bucket(), event.wall_seconds):
        bar = "█" * round(BAR_WIDTH * part.percent / 100)
        table.add_row(
            Text(part.label),
            Text(say_duration(part.seconds)),
            Text(say_percent(part.percent)),
            Text(bar, style="cyan"),
        )
    return table
