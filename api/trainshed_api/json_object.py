"""JSON whose shape nobody has checked yet."""

from __future__ import annotations

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]


def as_object(value: JsonValue) -> JsonObject:
    """Return the object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list; none for anything else."""
    return [as_object(item) for item in value] if isinstance(value, list) else []


def text(value: JsonObject, name: str) -> str:
    """Return a text of an object; an empty one for anything else."""
    found = value.get(name)
    return found if isinstance(found, str) else ""
