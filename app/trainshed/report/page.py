"""Selects what the page of a run shows; the template formats and escapes it."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trainshed import __version__
from trainshed.display.formatting import (
    MISSING,
    say_count,
    say_duration,
    say_moment,
    say_number,
    say_percent,
    say_resume,
)
from trainshed.display.start_phases import say_start, start_seconds
from trainshed.display.time_budget import LEAST_SECONDS_FOR_GOODPUT, split_time
from trainshed.report.comparison import Difference
from trainshed.report.curves import Curves, collect_curves
from trainshed.report.figures import list_bars, say_right
from trainshed.report.history import (
    MAX_CHECKPOINTS,
    MAX_NOTES,
    list_attempts,
    list_checkpoints,
    list_notes,
)
from trainshed.report.interruptions import list_losses
from trainshed.report.load import Gallery, Picture, RunData
from trainshed.report.metrics import find_best, list_metrics
from trainshed.report.plots import Chart, draw_chart
from trainshed.report.provenance import list_provenance
from trainshed.storage.training_figures import Confusion, Importance
from trainshed_api.progress import Progress
from trainshed_api.records import ResultRecord, bad_records_of, most_bad_records

TONES = {"Succeeded": "good", "Failed": "bad"}
# Pictures up to this width are shown with hard pixels; larger ones as photographs.
TINY_WIDTH = 64


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    label: str
    value: str
    note: str = ""


def render_comparison(
    title: str,
    charts: Sequence[Chart],
    rows: Sequence[Difference],
    columns: Sequence[str],
    heading: str = "What differs",
) -> str:
    """Return a page of charts and one table as HTML; every text in it is escaped."""
    page = _environment().get_template("comparison.html.j2")
    return page.render(title=title, charts=charts, rows=rows, columns=columns, heading=heading)


def render_page(run: RunData) -> str:
    """Return the page for a run as HTML; every text in it is escaped."""
    result, checkpoints = run.result, list_checkpoints(run)
    outcome = result.outcome if result else "Running"
    curves = collect_curves(run.attempts, run.step_name)
    return (
        _environment()
        .get_template("template.html.j2")
        .render(
            run=run,
            outcome=outcome,
            tone=TONES.get(outcome, "calm"),
            subtitle=_subtitle(run),
            message=result.message if result else _say_unfinished(run),
            tiles=list(_tiles(run, curves)),
            curves=curves,
            time=split_time(result.seconds.by_bucket(), result.wall_seconds) if result else [],
            tiny_width=TINY_WIDTH,
            importances=[each for each in run.figures if isinstance(each, Importance)],
            confusions=[each for each in run.figures if isinstance(each, Confusion)],
            metrics=list(list_metrics(run)),
            attempts=list(list_attempts(run)),
            losses=list(islice(list_losses(run), MAX_NOTES)),
            bad_records=most_bad_records(bad_records_of(each.events) for each in run.attempts),
            notes=list_notes(run),
            checkpoints=checkpoints,
            shown_checkpoints=checkpoints[:MAX_CHECKPOINTS],
            provenance=list_provenance(run),
            spec_yaml=yaml.safe_dump(run.provenance.spec, sort_keys=False, allow_unicode=True),
            version=__version__,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in FILTERS}
    return environment


def _subtitle(run: RunData) -> str:
    spec = run.provenance.spec
    started = next((a.started for a in reversed(run.attempts) if a.started), None)
    what = spec.get("train") or spec.get("entrypoint") or ""
    parts = [" ".join(map(str, what)) if isinstance(what, list) else str(what)]
    if started:
        parts.append(f"{started.workers} worker{'s' if started.workers != 1 else ''}")
    parts.append(say_moment(run.provenance.created_at))
    return " · ".join(part for part in parts if part not in ("", MISSING))


def _say_unfinished(run: RunData) -> str:
    times = [event.time for attempt in run.attempts for event in attempt.events]
    last = f"; its last event is from {say_moment(max(times))}" if times else ""
    return f"This run has no result yet: it is running, or was interrupted{last}."


def _tiles(run: RunData, curves: Curves) -> Iterator[Tile]:
    result = run.result
    if best := find_best(run):
        yield Tile(f"Best {best.name}", say_number(best.value), best.where)
    events = (event for attempt in reversed(run.attempts) for event in reversed(attempt.events))
    progress = next((event for event in events if isinstance(event, Progress)), None)
    if result:
        yield Tile("Wall time", say_duration(result.wall_seconds), "from start to end")
    elif progress and progress.eta_seconds is not None:
        yield Tile("Time left", say_duration(progress.eta_seconds), "as last estimated")
    if run.attempts and (phases := start_seconds(run.attempts[-1].events)):
        yield Tile("Start", say_duration(sum(phases.values())), say_start(phases))
    if (speed := result or progress) and speed.samples_per_second is not None:
        yield Tile("Samples/s", say_count(speed.samples_per_second), "while training, all workers")
    if speed and speed.data_wait_percent is not None:
        note = "of the training loop's time"
        yield Tile("Data wait", say_percent(speed.data_wait_percent), note)
    is_long = result and result.wall_seconds >= LEAST_SECONDS_FOR_GOODPUT
    if result and is_long and result.goodput is not None:
        note = "of the wall time went into training"
        yield Tile("Goodput", say_percent(100 * result.goodput), note)
    if step := _say_steps(result, progress):
        repeated = f"{curves.steps_repeated:,} done twice" if curves.steps_repeated else ""
        yield Tile(f"{run.step_name.title()}s", step, repeated)


def _say_steps(result: ResultRecord | None, progress: Progress | None) -> str:
    source = result or progress
    if source is None or not (source.step or source.steps):
        return ""
    total = f" / {source.steps:,}" if source.steps and source.steps != source.step else ""
    return f"{source.step or 0:,}{total}"


def summarise(gallery: Gallery) -> str:
    """Return how many examples are right, and how many are shown."""
    judged: Sequence[bool] = [p.good for p in gallery.pictures if p.good is not None]
    parts = []
    if judged:
        parts.append(f"{sum(judged)} of {len(judged)} right")
    if gallery.total > len(gallery.pictures):
        parts.append(f"{len(gallery.pictures)} of {gallery.total} shown")
    return ", ".join(parts)


def data_uri(picture: Picture) -> str:
    """Return a picture as an address that needs no other file."""
    return f"data:image/png;base64,{base64.b64encode(picture.png).decode('ascii')}"


FILTERS: tuple[Callable[..., object], ...] = (
    say_count,
    say_duration,
    say_moment,
    say_resume,
    say_number,
    say_percent,
    draw_chart,
    list_bars,
    say_right,
    summarise,
    data_uri,
)
