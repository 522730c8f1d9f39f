"""What a write sends of an object: the difference. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject


def merge_patch(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return what turns the old object into the new one, as RFC 7386 has it."""
    patch: JsonObject = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[name] = inner
        elif value != before or name not in old:
            patch[name] = value
    return patch
