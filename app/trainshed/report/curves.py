"""Turn what the attempts of a run reported into the charts of its report.

Pure. A curve is drawn over steps, or over what the program counts instead. Each attempt, and
each resume within one, starts a new stretch; what an earlier stretch did beyond the step that was
resumed from was lost, and looks so.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from trainshed.report.load import AttemptHistory
from trainshed.report.plots import (
    Chart,
    Series,
    Span,
    Stroke,
)
from trainshed.report.thinning import MAX_POINTS, Point, smooth_points, thin_points
from trainshed.report.timeline import Measured, place_events
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    Progress,
    Started,
    StepName,
    WorkersLost,
)

# Fewer points than this are drawn as they are; more get a moving average in front of them.
MIN_POINTS_FOR_TREND = 80
NUM_COLOURS = 6
MAX_METRIC_CHARTS = 12
MAX_DOTS = 100
# Past float32's range nothing that is drawn means anything, and squaring it would overflow.
LARGEST_DRAWN = 1e40


@dataclass(frozen=True)
class CurveSegment:
    """Events without interruption; from step `end` on, later stretches did the work again."""

    events: tuple[AnyEvent, ...]
    start: float
    end: float = math.inf


@dataclass(frozen=True)
class Curves:
    """All charts of a run and what their marks stand for."""

    charts: tuple[Chart, ...]
    has_trend: bool
    steps_repeated: int


def collect_curves(attempts: Sequence[AttemptHistory], step_name: StepName = "step") -> Curves:
    """One chart for each kind of metric, loss first, then samples/s and data wait."""
    counted, attempts = place_events(attempts)
    counted = step_name if counted == "step" else counted
    stretches = split_stretches(attempts)
    resumes = tuple(stretch.start for stretch in stretches[1:])
    repeated = tuple(_repeated_spans(stretches))
    saved = {e.step or 0 for s in stretches for e in s.events if isinstance(e, CheckpointSaved)}
    checkpoints = tuple(float(step) for step in sorted(saved))
    names = metric_names(stretches)
    # The same colour for a dataset in every chart; what was logged in training is first.
    datasets = dict.fromkeys(["", *(_dataset(name) for name in names)])
    colours = {dataset: index % NUM_COLOURS for index, dataset in enumerate(datasets)}
    chart = partial(Chart, x_label=counted, resumes=resumes, repeated=repeated)
    charts = [
        chart(title=kind, series=series, log_allowed=_is_loss(kind), checkpoints=checkpoints)
        for kind in sorted({_kind(name) for name in names}, key=_kind_rank)[:MAX_METRIC_CHARTS]
        if (
            series := tuple(
                drawn
                for name in names
                if _kind(name) == kind
                and (drawn := _metric_series(name, colours[_dataset(name)], stretches)) is not None
            )
        )
    ]
    for title, value in SPEEDS.items():
        if (speed := _speed_series(title, value, stretches)) is not None:
            charts.append(chart(title=title, series=(speed,), from_zero=True))
    return Curves(
        charts=tuple(charts),
        has_trend=any(
            stroke.look == "raw" for c in charts for s in c.series for stroke in s.strokes
        ),
        steps_repeated=round(sum(end - start for start, end in repeated)),
    )


def split_stretches(attempts: Sequence[AttemptHistory]) -> tuple[CurveSegment, ...]:
    """The events of all attempts, cut wherever training went on from an earlier step."""
    stretches: list[CurveSegment] = []
    events: list[AnyEvent] = []
    start = 0.0
    for event in (event for attempt in attempts for event in attempt.events):
        if isinstance(event, Started | WorkersLost):
            if any(isinstance(e, Measured) for e in events):
                stretches.append(CurveSegment(tuple(events), start))
                events = []
            start = float(event.resumed_from.step or 0) if event.resumed_from else 0.0
        events.append(event)
    stretches.append(CurveSegment(tuple(events), start))
    end = math.inf
    ended: list[CurveSegment] = []
    for stretch in reversed(stretches):
        ended.append(CurveSegment(stretch.events, stretch.start, end))
        end = min(end, stretch.start)
    return tuple(reversed(ended))


def metric_names(stretches: Sequence[CurveSegment]) -> list[str]:
    """Every metric that was reported, in the order in which they first came."""
    names: dict[str, None] = {}
    for stretch in stretches:
        for event in stretch.events:
            if isinstance(event, Measured):
                names.update(dict.fromkeys(event.metrics))
    return list(names)


def is_drawable(value: float | None) -> bool:
    """Whether a value is there and finite; a NaN is a gap in the curve."""
    return value is not None and math.isfinite(value) and abs(value) < LARGEST_DRAWN


SPEEDS: dict[str, Callable[[Progress], float | None]] = {
    "samples/s": lambda event: event.samples_per_second,
    "data wait %": lambda event: event.data_wait_percent,
}


def _metric_series(name: str, colour: int, stretches: Sequence[CurveSegment]) -> Series | None:
    strokes: list[Stroke] = []
    dots: list[Point] = []
    for stretch in stretches:
        logged, evaluated = _points_of(name, stretch)
        strokes += _strokes(logged, stretch.end, MAX_POINTS // 2 // len(stretches))
        dots += [point for point in evaluated if point[0] <= stretch.end]
    if dots:
        strokes.append(Stroke(thin_points(dots, MAX_POINTS // 2)))
    shown = tuple(sorted(strokes, key=lambda stroke: stroke.look != "raw"))
    return Series(name, colour, shown, thin_points(dots, MAX_DOTS)) if shown else None


def _points_of(name: str, stretch: CurveSegment) -> tuple[list[Point], list[Point]]:
    logged: list[Point] = []
    evaluated: list[Point] = []
    for event in stretch.events:
        if isinstance(event, Measured):
            value = event.metrics.get(name)
            if value is not None and is_drawable(value):
                into = evaluated if isinstance(event, Evaluated) else logged
                into.append((float(event.step or 0), value))
    return logged, evaluated


def _speed_series(
    title: str, speed: Callable[[Progress], float | None], stretches: Sequence[CurveSegment]
) -> Series | None:
    strokes: list[Stroke] = []
    for stretch in stretches:
        points = [
            (float(event.step or 0), value)
            for event in stretch.events
            if isinstance(event, Progress)
            if (value := speed(event)) is not None and is_drawable(value)
        ]
        strokes += _strokes(points, math.inf, MAX_POINTS // len(stretches))
    shown = tuple(sorted(strokes, key=lambda stroke: stroke.look != "raw"))
    return Series(title, 0, shown) if shown else None


def _strokes(points: Sequence[Point], end: float, limit: int) -> list[Stroke]:
    strokes = []
    if len(points) > MIN_POINTS_FOR_TREND:
        reported = [point for point in points if point[0] <= end]
        strokes.append(Stroke(thin_points(reported, max(limit // 2, 4)), "raw"))
        points = smooth_points(points, max(len(points) // 40, 5))
    kept = [point for point in points if point[0] <= end]
    lost = [point for point in points if point[0] > end]
    if kept:
        strokes.append(Stroke(thin_points(kept, max(limit // 4, 4))))
    if lost:
        # Joined to the thinned curve, so that its end is visible.
        lost = [*kept[-1:], *lost]
        strokes.append(Stroke(thin_points(lost, max(limit // 4, 4)), "repeated"))
    return [stroke for stroke in strokes if stroke.points]


def _repeated_spans(stretches: Sequence[CurveSegment]) -> Iterator[Span]:
    for stretch in stretches:
        reached = max((p.step or 0 for p in stretch.events if isinstance(p, Progress)), default=0)
        if reached > stretch.end:
            yield max(stretch.end, stretch.start), float(reached)


def _kind(name: str) -> str:
    return name.rpartition(".")[2]


def _dataset(name: str) -> str:
    return name.rpartition(".")[0]


def _is_loss(kind: str) -> bool:
    return "loss" in kind.lower()


def _kind_rank(kind: str) -> tuple[int, str]:
    for rank, word in enumerate(("loss", "accuracy", "acc")):
        if kind.lower() == word:
            return rank, kind
    return (3 if _is_loss(kind) else 4), kind
