"""Numbers as the columns of kubectl show them. Pure."""

from __future__ import annotations

_THOUSAND = 1000
_THOUSANDS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_number(value: float | None) -> str:
    """Return a number with four digits; empty for none."""
    if value is None:
        return ""
    # From a thousand on, four digits would be written with an exponent some day.
    return f"{value:.0f}" if abs(value) >= _THOUSAND else f"{value:.4g}"


def format_part(part: int | None, whole: int | None) -> str:
    """Return a part of a whole, such as 3/5."""
    if part is None:
        return ""
    return str(part) if whole is None else f"{part}/{whole}"


def format_rate(value: float | None) -> str:
    """Return a rate with its unit, such as 5.2k/s."""
    if value is None:
        return ""
    for size, letter in _THOUSANDS:
        if value >= size:
            return f"{value / size:.3g}{letter}/s"
    return f"{value:.3g}/s"


def format_duration(seconds: int) -> str:
    """Return it as kubectl writes ages: two units at most."""
    minutes, second = divmod(max(0, seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour}h"
    if hours:
        return f"{hours}h{minute}m"
    return f"{minutes}m{second}s" if minutes else f"{second}s"
