"""Scales, ticks and the numbers on them: where in a drawing a value lies.

Pure, and knows nothing of what is drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 50, 22, 12, 42
NUM_X_TICKS, NUM_Y_TICKS = 5, 4
MANTISSAS = (1, 2, 2.5, 5, 10)
WHOLE_MANTISSAS = (1, 2, 5, 10)
# Up to this many powers of ten labels fit between them.
FEW_DECADES = 4
ROUNDING = 1e-9
SMALL, THOUSAND, MILLION = 1e-3, 1e3, 1e6
UNITS = {"k": THOUSAND, "M": MILLION}
# More do not fit beside the axis.
MOST_DIGITS = 7


@dataclass(frozen=True)
class Scale:
    """Maps data units to SVG units along one axis."""

    low: float
    high: float
    start: float
    end: float
    kind: Literal["linear", "log"] = "linear"

    def place(self, value: float) -> float:
        """The position of a value; what lies outside is put on the edge."""
        value = min(max(value, self.low), self.high)
        if self.kind == "log":
            low, high = math.log(self.low), math.log(self.high)
            share = (math.log(value) - low) / (high - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def format_number(value: float, digits: int = 3) -> str:
    """A number as short as a reader of a chart needs it: 12k, 0.031, 1e-5."""
    size = abs(value)
    if size < SMALL and value != 0:
        return f"{value:.{digits - 1}g}".replace("e-0", "e-")
    if size < THOUSAND:
        return f"{value:.{digits}g}"
    for unit, name in ((MILLION, "M"), (10 * THOUSAND, "k")):
        if size >= unit:
            return f"{value / UNITS[name]:.{digits}g}{name}"
    return f"{value:,.{max(0, digits - 4)}f}"


def format_ticks(values: Sequence[float]) -> list[str]:
    """Return the ticks' labels, with as many digits as it takes to tell them apart."""
    for digits in range(3, MOST_DIGITS):
        labels = [format_number(value, digits) for value in values]
        if len(set(labels)) == len(set(values)):
            return labels
    return [format_number(value, MOST_DIGITS) for value in values]


def step_axis(values: Sequence[float]) -> tuple[Scale, list[float]]:
    """The axis across, and round whole numbers on it."""
    low, high = min(values), max(values)
    # A run starts at step 0, so the axis does too unless that would waste most of the width.
    low = 0.0 if low < 0.5 * high or low == high else low
    high = high if high > low else low + 1
    ticks = _nice_ticks(low, high, NUM_X_TICKS, WHOLE_MANTISSAS, smallest=1.0)
    scale = Scale(low, high, LEFT, WIDTH - RIGHT)
    return scale, [tick for tick in ticks if low <= tick <= high]


def value_axis(values: Sequence[float], *, from_zero: bool) -> tuple[Scale, list[float]]:
    """The axis up, from one round number to another; `from_zero` for rates."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 1.0)
    if high - low < ROUNDING * max(abs(high), abs(low), ROUNDING):
        low, high = low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1)
    ticks = _nice_ticks(low, high, NUM_Y_TICKS)
    if min(values) >= 0 and max(values) <= 1:
        # Shares such as an accuracy: an axis that goes past 1 would promise the impossible.
        low, high = max(low, 0.0), min(high, 1.0)
        ticks = [tick for tick in ticks if -ROUNDING <= tick <= 1 + ROUNDING]
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    return Scale(low, high, HEIGHT - BOTTOM, TOP), ticks


def log_axis(values: Sequence[float]) -> tuple[Scale, list[float]]:
    """The axis up for positive values that differ by orders of magnitude."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    mantissas = (1, 2, 5) if len(decades) <= FEW_DECADES else (1,)
    every = max(1, len(decades) // 5)
    places = [mantissa * 10.0**decade for decade in decades[::every] for mantissa in mantissas]
    ticks = [place for place in places if low <= place <= high]
    return Scale(low * 0.9, high * 1.1, HEIGHT - BOTTOM, TOP, "log"), ticks


def _nice_ticks(
    low: float,
    high: float,
    about: int,
    mantissas: Sequence[float] = MANTISSAS,
    smallest: float = 0.0,
) -> list[float]:
    """Round numbers around [low, high]: the first is at most `low`, the last at least `high`."""
    raw = (high - low) / about
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = max(next(m * magnitude for m in mantissas if m * magnitude >= raw * 0.999), smallest)
    first, last = math.floor(low / step + ROUNDING), math.ceil(high / step - ROUNDING)
    return [index * step for index in range(first, last + 1)]
