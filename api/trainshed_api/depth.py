"""Limits the nesting of documents, because recursive readers must not exhaust Python's stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

# Far above what anybody writes, far below where Python and pydantic give up.
MOST_LEVELS = 100
EXPECTED = f"at most {MOST_LEVELS} maps and lists inside each other"
_NAMED_LEVELS = 2


def refuse_deep(document: JsonValue, source: str) -> None:
    """Raise SpecError for a document with more levels than that, level by level."""
    level = [("", document)]
    for depth in range(MOST_LEVELS + 1):
        level = [inner for place, value in level for inner in _inside(place, value, depth)]
        if not level:
            return
    raise SpecError(
        [Problem(level[0][0] or source, None, f"nested too deep; expected {EXPECTED}")], source
    )


def _inside(place: str, value: JsonValue, depth: int) -> Iterator[tuple[str, JsonValue]]:
    """Yield what a map or a list holds, by the names of the first levels."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (f"{place}.{key}".lstrip(".") if depth < _NAMED_LEVELS else place), item
    elif isinstance(value, list):
        for item in value:
            yield place, item
