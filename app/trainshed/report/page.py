"""Put a run's run into the words and numbers that the template shows.

Pure: run in, page out. Nothing here is HTML; the template escapes all of it.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import yaml

from trainshed import __version__
from trainshed.display.formatting import (
    MISSING,
    say_count,
    say_duration,
    say_moment,
    say_number,
    say_percent,
)
from trainshed.display.time_budget import LEAST_SECONDS_FOR_GOODPUT, split_time
from trainshed.report.bad_record_rows import BadRow, list_bad_records
from trainshed.report.curves import Curves, collect_curves
from trainshed.report.figures import (
    ShownConfusion,
    ShownImportance,
    show_confusion,
    show_importance,
)
from trainshed.report.history import (
    MAX_NOTES,
    AttemptRow,
    CheckpointRow,
    HistoryNote,
    list_attempts,
    list_checkpoints,
    list_notes,
)
from trainshed.report.interruptions import LossRow, list_losses
from trainshed.report.load import Gallery, Picture, RunData
from trainshed.report.metrics import MetricRow, find_best, list_metrics
from trainshed.report.plots import Drawing, draw_chart
from trainshed.report.provenance import FactGroup, list_provenance
from trainshed.storage.training_figures import Confusion, Importance
from trainshed_api.progress import Progress
from trainshed_api.records import ResultRecord

TONES = {"Succeeded": "good", "Failed": "bad"}
# Pictures up to this width are shown with hard pixels; larger ones as photographs.
TINY_WIDTH = 64


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class TimeRow:
    """One bucket of the time budget; `colour` is the end of a CSS variable's name."""

    label: str
    meaning: str
    colour: str
    seconds: str
    share: str
    percent: float


@dataclass(frozen=True)
class StageRow:
    """One stage of a dataset's rows on their way to a device."""

    dataset: str
    stage: str
    seconds: str
    rows: str
    row: str


@dataclass(frozen=True)
class ShownPicture:
    """One example with everything that the page needs to show it without another file."""

    data_uri: str
    caption: str
    alt: str
    good: bool | None
    is_tiny: bool


@dataclass(frozen=True)
class ShownGallery:
    """The examples of one name."""

    name: str
    summary: str
    pictures: tuple[ShownPicture, ...]


@dataclass(frozen=True)
class Page:
    """Everything that the template shows, in its order."""

    name: str
    outcome: str
    tone: str
    subtitle: str
    message: str
    tiles: tuple[Tile, ...]
    charts: tuple[Drawing, ...]
    has_trend: bool
    has_checkpoints: bool
    has_resumes: bool
    time: tuple[TimeRow, ...]
    time_description: str
    stages: tuple[StageRow, ...]
    waits_for: str
    galleries: tuple[ShownGallery, ...]
    importances: tuple[ShownImportance, ...]
    confusions: tuple[ShownConfusion, ...]
    metrics: tuple[MetricRow, ...]
    attempts: tuple[AttemptRow, ...]
    losses: tuple[LossRow, ...]
    bad_records: tuple[BadRow, ...]
    notes: tuple[HistoryNote, ...]
    checkpoints: tuple[CheckpointRow, ...]
    checkpoints_summary: str
    provenance: tuple[FactGroup, ...]
    spec_yaml: str
    version: str
    folder: str


def compose_page(run: RunData) -> Page:
    """The page for one run."""
    curves = collect_curves(run.attempts, run.step_name)
    result = run.result
    outcome = result.outcome if result else "Running"
    time = tuple(_time_rows(result))
    checkpoints = list_checkpoints(run)
    return Page(
        name=run.provenance.name,
        outcome=outcome,
        tone=TONES.get(outcome, "calm"),
        subtitle=_subtitle(run),
        message=result.message if result else _say_unfinished(run),
        tiles=tuple(_tiles(run, curves)),
        charts=tuple(draw_chart(chart) for chart in curves.charts),
        has_trend=curves.has_trend,
        has_checkpoints=any(chart.checkpoints for chart in curves.charts),
        has_resumes=any(chart.resumes for chart in curves.charts),
        time=time,
        time_description="; ".join(f"{row.label} {row.share}" for row in time),
        stages=tuple(_stage_rows(result)),
        waits_for=(result.waits_for or "") if result else "",
        galleries=tuple(_show_gallery(gallery) for gallery in run.galleries),
        importances=tuple(
            show_importance(figure) for figure in run.figures if isinstance(figure, Importance)
        ),
        confusions=tuple(
            show_confusion(figure) for figure in run.figures if isinstance(figure, Confusion)
        ),
        metrics=tuple(list_metrics(run)),
        attempts=tuple(list_attempts(run)),
        losses=tuple(islice(list_losses(run), MAX_NOTES)),
        bad_records=tuple(list_bad_records(run)),
        notes=tuple(list_notes(run)),
        checkpoints=tuple(checkpoints.rows),
        checkpoints_summary=checkpoints.summary,
        provenance=tuple(list_provenance(run)),
        spec_yaml=yaml.safe_dump(run.provenance.spec, sort_keys=False, allow_unicode=True),
        version=__version__,
        folder=str(run.folder),
    )


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
    progress = _last_progress(run)
    if result:
        yield Tile("Wall time", say_duration(result.wall_seconds), "from start to end")
    elif progress and progress.eta_seconds is not None:
        yield Tile("Time left", say_duration(progress.eta_seconds), "as last estimated")
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


def _last_progress(run: RunData) -> Progress | None:
    events = (event for attempt in reversed(run.attempts) for event in reversed(attempt.events))
    return next((event for event in events if isinstance(event, Progress)), None)


def _say_steps(result: ResultRecord | None, progress: Progress | None) -> str:
    source = result or progress
    if source is None or not (source.step or source.steps):
        return ""
    total = f" / {source.steps:,}" if source.steps and source.steps != source.step else ""
    return f"{source.step or 0:,}{total}"


def _time_rows(result: ResultRecord | None) -> Iterator[TimeRow]:
    if result:
        for part in split_time(result.seconds.by_bucket(), result.wall_seconds):
            yield TimeRow(
                label=part.label,
                meaning=part.meaning,
                colour=part.bucket if part.bucket in COLOURED else "other",
                seconds=f"{part.seconds:,.1f}",
                share=say_percent(part.percent),
                percent=round(part.percent, 3),
            )


def _stage_rows(result: ResultRecord | None) -> Iterator[StageRow]:
    for each in result.data if result else ():
        yield StageRow(
            dataset=each.dataset,
            stage=each.stage,
            seconds=f"{each.seconds:,.1f}",
            rows=say_count(each.rows) if each.rows else MISSING,
            row=f"{1000 * each.seconds / each.rows:.3g} ms" if each.rows else MISSING,
        )


COLOURED = {
    "training",
    "waitingForData",
    "evaluating",
    "checkpointing",
    "starting",
    "stopping",
    "lost",
}


def _show_gallery(gallery: Gallery) -> ShownGallery:
    pictures = tuple(_show_picture(gallery.name, picture) for picture in gallery.pictures)
    return ShownGallery(gallery.name, _summarise(gallery), pictures)


def _show_picture(name: str, picture: Picture) -> ShownPicture:
    encoded = base64.b64encode(picture.png).decode("ascii")
    verdict = "" if picture.good is not False else ", wrong"
    return ShownPicture(
        data_uri=f"data:image/png;base64,{encoded}",
        caption=picture.caption,
        alt=f"Example of {name}: {picture.caption or 'no caption'}{verdict}",
        good=picture.good,
        is_tiny=picture.width <= TINY_WIDTH,
    )


def _summarise(gallery: Gallery) -> str:
    judged: Sequence[bool] = [p.good for p in gallery.pictures if p.good is not None]
    parts = []
    if judged:
        parts.append(f"{sum(judged)} of {len(judged)} right")
    if gallery.total > len(gallery.pictures):
        parts.append(f"{len(gallery.pictures)} of {gallery.total} shown")
    return ", ".join(parts)
