"""An Event about a run, as the API server takes it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api import names

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.model import Note, RunView


def event_of(view: RunView, note: Note, now: datetime) -> JsonObject:
    """Return the Event; its name is made up by the API server."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"generateName": f"{view.name}.", "namespace": view.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": view.namespace,
            "name": view.name,
            "uid": view.uid,
            "resourceVersion": view.resource_version,
        },
        "type": note.type,
        "reason": note.reason,
        "message": note.message,
        "source": {"component": "trainshed-controller"},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
