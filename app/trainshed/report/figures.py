"""Put what counted and what was mistaken into the rows that the template shows. Pure."""

from dataclasses import dataclass

from trainshed.display.formatting import say_number, say_percent
from trainshed.storage.training_figures import Confusion, Importance


@dataclass(frozen=True)
class Bar:
    """One feature: `percent` is of the one that counts most, for the length of its bar."""

    name: str
    value: str
    percent: float


@dataclass(frozen=True)
class ShownImportance:
    """How much each feature counted."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Cell:
    """Rows of one class that were taken for one; `share` is of that class, from 0 to 1."""

    rows: str
    share: float
    is_right: bool


@dataclass(frozen=True)
class ClassRow:
    """What the rows of one class were taken for."""

    name: str
    cells: tuple[Cell, ...]
    right: str


@dataclass(frozen=True)
class ShownConfusion:
    """What rows of each class were taken for."""

    name: str
    summary: str
    classes: tuple[str, ...]
    rows: tuple[ClassRow, ...]


def show_importance(figure: Importance) -> ShownImportance:
    """The bars of a figure, the longest first."""
    shares = dict(figure.shares)
    if figure.others:
        shares["all others together"] = figure.others
    longest = max((abs(value) for value in figure.shares.values()), default=0.0) or 1.0
    bars = (
        Bar(name, say_number(value), round(min(100.0, 100 * abs(value) / longest), 2))
        for name, value in shares.items()
    )
    return ShownImportance(figure.name, tuple(bars))


def show_confusion(figure: Confusion) -> ShownConfusion:
    """The table of a figure."""
    total = sum(map(sum, figure.counts))
    right = sum(counts[place] for place, counts in enumerate(figure.counts))
    summary = f"{right:,} of {total:,} right, {say_percent(100 * right / total)}" if total else ""
    rows = (
        _show_class(figure.classes[place], place, counts)
        for place, counts in enumerate(figure.counts)
    )
    return ShownConfusion(figure.name, summary, tuple(figure.classes), tuple(rows))


def _show_class(name: str, place: int, counts: list[int]) -> ClassRow:
    total = sum(counts)
    cells = (
        Cell(f"{count:,}", round(count / total, 3) if total else 0.0, taken_for == place)
        for taken_for, count in enumerate(counts)
    )
    right = say_percent(100 * counts[place] / total) if total else ""
    return ClassRow(name, tuple(cells), right)
