"""Histories of a run: what the controller saw at each look, what it did, and what it wrote.

One JSON object a line. Facts and status are merge patches of those of the line before.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter

from tests.controller.api_server import merged
from trainshed_api.json_object import JsonObject, as_object, objects
from trainshed_api.pod_trouble import PodTrouble
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import Reservation, TrainingRunStatus
from trainshed_api.v1alpha1 import TrainingRunResource
from trainshed_controller.decide import decide, derive
from trainshed_controller.facts import State, facts_of
from trainshed_controller.merge_patch import merge_patch
from trainshed_controller.model import Observed, RunView, Settings

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
FOLDER = Path(__file__).parent / "histories"
SETTINGS = Settings(progress_url="http://controller:8081")
_TYPES = {each.__name__: each for each in (
    datetime, Snapshot, Reservation, TrainingRunStatus, TrainingRunResource, PodTrouble,
)} | {"JsonObject": JsonObject}  # fmt: skip
_VIEWS, _SEEN = TypeAdapter(RunView), TypeAdapter(Observed)
for _adapter in (_VIEWS, _SEEN):
    _adapter.rebuild(force=True, _types_namespace=_TYPES)
_LISTS = {"conditions": "type", "attempts": "number"}


@dataclass(frozen=True)
class Look:
    """What a decision is made of."""

    view: RunView
    seen: Observed
    now: datetime

    def state(self) -> State:
        """Return the state of the run."""
        return derive(facts_of(self.view, self.seen, SETTINGS, self.now))

    def outcome(self) -> JsonObject:
        """Return what is done and written, without what is the default."""
        plan = decide(self.view, self.seen, SETTINGS, self.now)
        action: JsonObject = {
            "begin": plan.begin,
            "deleteJobs": [job.name for job in plan.delete_jobs],
            "deleteRun": plan.delete_run,
            "notes": [f"{note.type} {note.reason}: {note.message}" for note in plan.notes],
            "urgent": plan.urgent,
            "againAfter": None if plan.again_after is None else round(plan.again_after, 2),
        }
        done: JsonObject = {name: value for name, value in action.items() if value}
        status = plan.status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return {"does": done, "status": _keyed(status)}


def lines_of(looks: Iterable[Look]) -> Iterator[str]:
    """Yield the lines of a history."""
    facts: JsonObject = {}
    status: JsonObject = {}
    for look in looks:
        seen = look.seen
        if seen.cluster:  # groups matter to the queue alone, and its word is in `place`
            seen = replace(seen, cluster=replace(seen.cluster, groups=()))
        now_facts: JsonObject = {
            "view": _dumped(_VIEWS, look.view),
            "seen": _dumped(_SEEN, seen),
        }
        now_facts = as_object(_quiet(now_facts))
        known = _keyed(as_object(as_object(now_facts["view"]).pop("status")))
        outcome = _look(now_facts, known, look.now).outcome()
        new = as_object(outcome["status"])
        line: JsonObject = {
            "now": look.now.isoformat(),
            "facts": merge_patch(facts, now_facts),
            "found": merge_patch(status, known),
            "does": outcome["does"],
            "writes": merge_patch(known, new),
        }
        yield json.dumps({name: value for name, value in line.items() if value}, sort_keys=False)
        facts, status = now_facts, new


def read_history(path: Path) -> Iterator[tuple[Look, JsonObject]]:
    """Yield the looks of a history, and what came of each."""
    facts: JsonObject = {}
    status: JsonObject = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = as_object(json.loads(text))
        facts = merged(facts, as_object(line.get("facts")))
        known = merged(status, as_object(line.get("found")))
        status = merged(known, as_object(line.get("writes")))
        look = _look(facts, known, datetime.fromisoformat(str(line["now"])))
        yield look, {"does": line.get("does", {}), "status": status}


def _dumped(adapter: TypeAdapter[T], value: T) -> JsonObject:
    dumped = adapter.dump_python(value, mode="json", by_alias=True, exclude_defaults=True)
    return as_object(dumped)


def _look(facts: JsonObject, status: JsonObject, now: datetime) -> Look:
    lists: JsonObject = {name: list(as_object(status.get(name)).values()) for name in _LISTS}
    view = as_object(facts["view"]) | {"status": status | lists}
    return Look(_VIEWS.validate_python(view), _SEEN.validate_python(facts["seen"]), now)


def _keyed(status: JsonObject) -> JsonObject:
    """Return the status with its lists as objects, so that a patch has only what changed."""
    lists: JsonObject = {
        name: {str(item[key]): item for item in objects(status.get(name))}
        for name, key in _LISTS.items()
    }
    return status | lists


def _quiet(value: "JsonValue", name: str = "") -> "JsonValue":
    """Return the value without what changes at every look and nobody decides by."""
    if isinstance(value, dict):
        return {key: _quiet(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_quiet(item) for item in value]
    if name == "resource_version":
        return ""
    return round(value, 3) if isinstance(value, float) else value
