"""The condition of a run over which the controller itself failed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.json_object import JsonObject
    from trainshed_api.status import ConditionType

INTERNAL_ERROR: ConditionType = "InternalError"
_LONGEST_MESSAGE = 1000


def internal_error_patch(
    status: JsonObject, reason: str, message: str, now: datetime
) -> JsonObject | None:
    """Return the merge patch that says it; None where the status says so already.

    status: as it stands, and perhaps what nobody can read; what else is in it stays.
    """
    conditions = status.get("conditions")
    there = conditions if isinstance(conditions, list) else []
    old = next((as_object(c) for c in there if as_object(c).get("type") == INTERNAL_ERROR), {})
    text = f"{message[:_LONGEST_MESSAGE]}; the controller's log has more, and it tries again"
    if old.get("status") == "True" and old.get("message") == text:
        return None
    turned, moment = old.get("lastTransitionTime"), now.strftime("%Y-%m-%dT%H:%M:%SZ")
    new: JsonObject = {
        "type": INTERNAL_ERROR,
        "status": "True",
        "reason": reason,
        "message": text,
        "lastTransitionTime": turned if old.get("status") == "True" else moment,
    }
    others = [item for item in there if as_object(item).get("type") != INTERNAL_ERROR]
    return {"conditions": [*others, new]}
