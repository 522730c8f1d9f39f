"""Curves that mislead nobody: what is thinned, smoothed and scaled keeps its shape."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.report.axes import HEIGHT, WIDTH, format_number
from trainshed.report.plots import Chart, Series, Stroke, draw_chart
from trainshed.report.thinning import Point, smooth_points, thin_points

POINTS = st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=400).map(
    lambda values: [(float(step), value) for step, value in enumerate(values)]
)


def make_chart(points: list[Point], *, log_allowed: bool = False) -> Chart:
    """A chart of one curve."""
    series = Series("loss", 0, (Stroke(tuple(points)),))
    return Chart("loss", (series,), log_allowed=log_allowed)


@given(POINTS, st.integers(4, 60))
def test_thinning_keeps_ends_extremes_and_order(points: list[Point], limit: int) -> None:
    thin = thin_points(points, limit)

    assert len(thin) <= limit or len(points) <= limit
    assert (thin[0], thin[-1]) == (points[0], points[-1])
    assert max(y for _, y in thin) == max(y for _, y in points)
    assert min(y for _, y in thin) == min(y for _, y in points)
    assert list(thin) == sorted(thin)


def test_one_spike_in_a_hundred_thousand_points_survives() -> None:
    points = [(float(step), 100.0 if step == 54_321 else 1.0) for step in range(100_000)]

    thin = thin_points(points)

    assert (54_321.0, 100.0) in thin
    assert len(thin) <= 2_000


def test_smoothing_a_straight_line_changes_nothing() -> None:
    points = [(float(step), 2.0 * step) for step in range(50)]

    assert smooth_points(points, 9) == tuple(points)


@given(POINTS, st.booleans())
def test_whatever_the_values_the_drawing_stays_on_its_canvas(
    points: list[Point], log_allowed: bool
) -> None:
    drawing = draw_chart(make_chart(points, log_allowed=log_allowed))

    path = drawing.series[0].paths[0][1]
    places = [pair.split() for pair in path.removeprefix("M").split("L")]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
    assert all(math.isfinite(tick.at) for tick in (*drawing.x_ticks, *drawing.y_ticks))


SCALES: dict[str, tuple[list[float], list[str]]] = {
    "a loss that falls far gets a log scale": ([2.0, 0.2, 0.02], ["0.02", "0.05", "0.1", "0.2"]),
    "a loss that falls little stays linear": ([2.0, 1.0], ["1", "1.25", "1.5", "1.75", "2"]),
    "an accuracy never promises more than 1": ([0.9, 1.0], ["0.9", "0.925", "0.95", "0.975", "1"]),
    "ticks that lie close have more digits": (
        [4.6049, 4.6061],
        ["4.6045", "4.605", "4.6055", "4.606", "4.6065"],
    ),
    "a constant gets room above and below": ([5.0, 5.0], ["4.5", "4.75", "5", "5.25", "5.5"]),
}


@pytest.mark.parametrize(("values", "want"), SCALES.values(), ids=SCALES.keys())
def test_axis_suits_the_values(values: list[float], want: list[str]) -> None:
    points = [(float(step), value) for step, value in enumerate(values)]

    labels = [tick.label for tick in draw_chart(make_chart(points, log_allowed=True)).y_ticks]

    assert labels[: len(want)] == want


@pytest.mark.parametrize(
    ("value", "want"),
    [(0, "0"), (0.00001, "1e-5"), (0.031, "0.031"), (225, "225"), (5210, "5,210"), (12e3, "12k")],
)
def test_ticks_are_short(value: float, want: str) -> None:
    assert format_number(value) == want


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 10))
def test_no_two_ticks_look_alike(low: float, share: float) -> None:
    high = low + share * max(1.0, abs(low))
    drawing = draw_chart(make_chart([(0.0, low), (1e5, high)]))

    for ticks in (drawing.x_ticks, drawing.y_ticks):
        assert len({tick.label for tick in ticks}) == len({tick.at for tick in ticks})


def test_a_curve_of_one_point_is_a_dot_within_the_axes() -> None:
    drawing = draw_chart(make_chart([(40.0, 0.5)]))

    (dot,) = drawing.series[0].dots
    assert dot.words == "loss 0.5 at step 40"
    assert drawing.across.start < dot.x <= drawing.across.end
    assert drawing.up.end < dot.y < drawing.up.start
