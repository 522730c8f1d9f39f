"""Events about runs, as the API server takes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api import names

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.model import Note, RunView

# The API server refuses longer ones (pkg/apis/core/validation/events.go of Kubernetes).
_MOST_NOTE_BYTES = 1024


def event_of(view: RunView, note: Note, name: str, instance: str, now: datetime) -> JsonObject:
    """Return the first Event of a series.

    instance: which replica of the controller reports it.
    """
    text = note.message.encode()[:_MOST_NOTE_BYTES].decode(errors="ignore")
    return {
        "metadata": {"name": name, "namespace": view.namespace},
        "eventTime": moment_of(now),
        "reportingController": f"{names.GROUP}/controller",
        "reportingInstance": instance,
        "action": note.reason,
        "reason": note.reason,
        "note": text,
        "type": note.type,
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": view.namespace,
            "name": view.name,
            "uid": view.uid,
            "resourceVersion": view.resource_version,
        },
    }


def series_of(count: int, now: datetime) -> JsonObject:
    """Return what is written into the first Event when it happened again."""
    return {"series": {"count": count, "lastObservedTime": moment_of(now)}}


def moment_of(now: datetime) -> str:
    """Return a moment as the API server takes it, in microseconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
