"""JSON whose shape nobody has checked yet."""

from __future__ import annotations

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]


def as_object(value: JsonValue) -> JsonObject:
    """Return the object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}
