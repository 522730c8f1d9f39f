"""What a template cannot say of a figure that a run kept. Pure."""

from trainshed.display.formatting import say_percent
from trainshed.storage.training_figures import Confusion, Importance


def list_bars(figure: Importance) -> list[tuple[str, float, float]]:
    """Return the name, the share and the length in percent of each bar."""
    shares = dict(figure.shares)
    if figure.others:
        shares["all others together"] = figure.others
    longest = max((abs(value) for value in figure.shares.values()), default=0.0) or 1.0
    return [
        (name, value, round(min(100.0, 100 * abs(value) / longest), 2))
        for name, value in shares.items()
    ]


def say_right(figure: Confusion) -> str:
    """Return how many rows of all classes are right; empty without rows."""
    total = sum(map(sum, figure.counts))
    right = sum(counts[place] for place, counts in enumerate(figure.counts))
    return f"{right:,} of {total:,} right, {say_percent(100 * right / total)}" if total else ""
