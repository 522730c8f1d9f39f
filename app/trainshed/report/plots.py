"""Turn series of numbers into the geometry of a chart that the template writes as SVG.

Pure: no files, no clock, no HTML. Drawn here and not by a plotting library because importing one
takes longer than everything else in the report together, and because CSS classes let one drawing
serve light and dark pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainshed.report.axes import (
    HEIGHT,
    WIDTH,
    Scale,
    format_number,
    format_ticks,
    log_axis,
    step_axis,
    value_axis,
)
from trainshed.report.thinning import Point

Span = tuple[float, float]

MAX_TICK_MARKS = 200
# Beyond this ratio of largest to smallest value a linear axis hides the end of a loss curve.
LOG_SCALE_RATIO = 50.0


@dataclass(frozen=True)
class Stroke:
    """One line to draw: points in data units and how it is to look."""

    points: tuple[Point, ...]
    look: Literal["line", "raw", "repeated"] = "line"


@dataclass(frozen=True)
class Series:
    """All strokes of one name, with the values its legend shows."""

    label: str
    colour: int
    strokes: tuple[Stroke, ...]
    dots: tuple[Point, ...] = ()

    @property
    def values(self) -> list[float]:
        """Every value drawn, in the order of the strokes."""
        return [y for stroke in self.strokes for _, y in stroke.points] + [y for _, y in self.dots]


@dataclass(frozen=True)
class Chart:
    """What one chart shows, in data units."""

    title: str
    series: tuple[Series, ...]
    x_label: str = "step"
    from_zero: bool = False
    log_allowed: bool = False
    resumes: tuple[float, ...] = ()
    repeated: tuple[Span, ...] = ()
    checkpoints: tuple[float, ...] = ()


@dataclass(frozen=True)
class Tick:
    """A position on an axis, in SVG units, and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Dot:
    """A marked point, in SVG units, with the words that appear when it is pointed at."""

    x: float
    y: float
    words: str


@dataclass(frozen=True)
class DrawnSeries:
    """One series as SVG path data."""

    label: str
    colour: int
    paths: tuple[tuple[str, str], ...]  # (look, path data)
    dots: tuple[Dot, ...]
    last: str


@dataclass(frozen=True)
class Drawing:
    """One chart as the template writes it."""

    chart: Chart
    description: str
    across: Scale
    up: Scale
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    series: tuple[DrawnSeries, ...]
    checkpoints: tuple[float, ...]
    width: int = WIDTH
    height: int = HEIGHT


def draw_chart(chart: Chart) -> Drawing:
    """The geometry of one chart; a chart without any point has no drawing, so give it one."""
    every_point = [p for s in chart.series for stroke in s.strokes for p in stroke.points]
    every_point += [p for s in chart.series for p in s.dots]
    across, x_ticks = step_axis([p[0] for p in every_point])
    values = [p[1] for p in every_point]
    is_log = chart.log_allowed and 0 < min(values) * LOG_SCALE_RATIO < max(values)
    up, y_ticks = log_axis(values) if is_log else value_axis(values, from_zero=chart.from_zero)
    return Drawing(
        chart=chart,
        description=_describe(chart),
        across=across,
        up=up,
        x_ticks=_label(x_ticks, across),
        y_ticks=_label(y_ticks, up),
        series=tuple(_draw_series(series, chart.x_label, across, up) for series in chart.series),
        checkpoints=chart.checkpoints[:: len(chart.checkpoints) // MAX_TICK_MARKS + 1],
    )


def _label(ticks: Sequence[float], scale: Scale) -> tuple[Tick, ...]:
    labels = format_ticks(ticks)
    return tuple(Tick(scale.place(at), label) for at, label in zip(ticks, labels, strict=True))


def _draw_series(series: Series, x_label: str, across: Scale, up: Scale) -> DrawnSeries:
    paths = tuple((stroke.look, _path(stroke.points, across, up)) for stroke in series.strokes)
    # A curve of one point is a dot, or nobody would see it.
    alone = {p for stroke in series.strokes for p in stroke.points}
    dots = tuple(
        Dot(across.place(x), up.place(y), f"{series.label} {y:.4g} at {x_label} {x:,.0f}")
        for x, y in series.dots or (alone if len(alone) == 1 else ())
    )
    return DrawnSeries(series.label, series.colour, paths, dots, format_number(_last(series)))


def _path(points: Sequence[Point], across: Scale, up: Scale) -> str:
    if len(points) == 1:
        # A path of one point draws nothing; a line of no length with round ends draws a dot.
        points = (points[0], points[0])
    return "M" + "L".join(f"{across.place(x):g} {up.place(y):g}" for x, y in points)


def _last(series: Series) -> float:
    if series.dots:
        return series.dots[-1][1]
    current = [s.points[-1] for s in series.strokes if s.look != "raw" and s.points]
    return current[-1][1]


def _describe(chart: Chart) -> str:
    parts = [
        f"{series.label} from {format_number(min(series.values))}"
        f" to {format_number(max(series.values))}, last {format_number(_last(series))}"
        for series in chart.series
    ]
    return f"{chart.title} over {chart.x_label}: " + "; ".join(parts)
