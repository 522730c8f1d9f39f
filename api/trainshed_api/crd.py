"""The CustomResourceDefinition, made from the model: `python -m trainshed_api.crd` prints it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import yaml

from trainshed_api import names
from trainshed_api.json_object import as_object
from trainshed_api.json_schema import resolve
from trainshed_api.rules import iterate_rules
from trainshed_api.status import TrainingRunStatus
from trainshed_api.v1alpha1 import TrainingRunResource

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject

_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "required",
)
# CEL's cost is estimated from what could be sent at most; where the model says nothing, this.
_MOST_CHARACTERS, _MOST_ITEMS, _MOST_KEYS = 4096, 1000, 100
_PROGRESSING = '.status.conditions[?(@.type=="Progressing")].'
# Columns of `kubectl get`; those of _WIDE only with `-o wide`.
_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("Phase", "string", ".status.phase", "Where the run is."),
    ("Why", "string", _PROGRESSING + "reason", "Why it is there, in one word."),
    ("Attempt", "integer", ".status.attempt", "Number of the newest attempt."),
    ("Epoch", "string", ".status.progress.display.epoch", "Epoch that is worked on."),
    ("Step", "string", ".status.progress.display.step", "Steps done."),
    ("Loss", "string", ".status.progress.display.loss", "Last loss."),
    ("Rate", "string", ".status.progress.display.rate", "Samples a second."),
    ("Data-Wait", "string", ".status.progress.display.dataWait", "Time waiting for data."),
    ("ETA", "string", ".status.progress.display.eta", "Time that is left."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since it was made."),
)
_WIDE: tuple[tuple[str, str, str, str], ...] = (
    ("Cluster", "string", ".status.attempts[-1:].rayCluster", "RayCluster of the newest attempt."),
    ("Position", "integer", ".status.queue.position", "Position in the queue of the cluster."),
)


def render_crd() -> JsonObject:
    """Return the CRD as the chart installs it."""
    version: JsonObject = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column(*column, priority=priority)
            for priority, columns in ((0, _COLUMNS), (1, _WIDE))
            for column in columns
        ],
        "selectableFields": [{"jsonPath": ".status.phase"}],
        "schema": {"openAPIV3Schema": _root()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.PLURAL}.{names.GROUP}",
            # With the definition all runs would go: an uninstall leaves it.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.KIND.lower(),
                "shortNames": [names.SHORT_NAME],
                "categories": ["all", "ray"],
            },
            "versions": [version],
        },
    }


def _column(name: str, kind: str, path: str, description: str, *, priority: int) -> JsonObject:
    shown: JsonObject = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return shown | ({"priority": priority} if priority else {})


def _root() -> JsonObject:
    model = TrainingRunResource.model_json_schema(by_alias=True)
    spec = convert(as_object(as_object(model["properties"])["spec"]), as_object(model["$defs"]))
    root: JsonObject = {
        "description": "One training run.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status_schema(),
        },
    }
    _put_rules(root)
    return root


def status_schema() -> JsonObject:
    """Return the schema of the status, without rules."""
    status = TrainingRunStatus.model_json_schema(by_alias=True)
    return _without_defaults(convert(status, as_object(status["$defs"])))


def convert(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Return a schema of pydantic's as a structural one: no $ref, no null, nothing of our own."""
    schema = resolve(schema, definitions)
    result: JsonObject = {
        name: schema[name] for name in _KEPT if name in schema and schema[name] is not None
    }
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if schema.get("quantity"):
        del result["type"]
        return result | {"x-kubernetes-int-or-string": True}
    match schema.get("type"):
        case "string" if "enum" not in result and "format" not in result:
            result.setdefault("maxLength", _MOST_CHARACTERS)
        case "array":
            result["items"] = convert(as_object(schema["items"]), definitions)
            result.setdefault("maxItems", _MOST_ITEMS)
        case "object":
            result |= _convert_object(schema, definitions)
    return result


def _convert_object(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    required = schema.get("required", [])
    assert isinstance(required, list)
    if "properties" in schema:
        return {
            "properties": {
                name: _convert_field(as_object(item), definitions, required=name in required)
                for name, item in as_object(schema["properties"]).items()
            }
        }
    values = as_object(schema.get("additionalProperties"))
    inner = resolve(values, definitions)
    if not inner:
        return {"x-kubernetes-preserve-unknown-fields": True}
    return {
        "additionalProperties": convert(values, definitions),
        "maxProperties": _MOST_KEYS,
    }


def _convert_field(field: JsonObject, definitions: JsonObject, *, required: bool) -> JsonObject:
    """Return the schema of a field; an object of defaults is there even if nobody names it."""
    result = convert(field, definitions)
    if "onlyWith" in field:
        # The API server would give it to those who may not have it.
        fallback = result.pop("default", None)
        if fallback not in (None, {}, []):
            result["description"] = f"{result['description']} Default {fallback}."
    elif result.get("type") == "object" and not required and "anyOf" not in field:
        # Written out: rules are checked on a default before what is inside it is filled in.
        inside = as_object(result.get("properties"))
        result["default"] = {
            name: value["default"]
            for name, value in ((name, as_object(item)) for name, item in inside.items())
            if "default" in value
        }
    return result


def _without_defaults(schema: JsonObject) -> JsonObject:
    """Return the schema of what nobody but the controller writes: it says all that is so."""
    kept = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in kept:
        fields = as_object(kept["properties"])
        kept["properties"] = {name: _without_defaults(as_object(s)) for name, s in fields.items()}
        if "lastTransitionTime" in fields:
            kept["required"] = ["type", "status", "reason", "lastTransitionTime"]
    if "items" in kept:
        kept["items"] = _without_defaults(as_object(kept["items"]))
        if "lastTransitionTime" in as_object(as_object(kept["items"]).get("properties")):
            kept |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return kept


def _put_rules(root: JsonObject) -> None:
    for rule in iterate_rules():
        place = root
        for step in rule.path.replace("[]", ".[]").split(".") if rule.path else []:
            if step == "[]":
                place = as_object(place["items"])
            elif step == "NAME":
                place = as_object(place["additionalProperties"])
            else:
                place = as_object(as_object(place["properties"])[step])
        entry: JsonObject = {"rule": rule.cel, "message": rule.message}
        if rule.field:
            entry["fieldPath"] = f".{rule.field}"
        rules = place.setdefault("x-kubernetes-validations", [])
        assert isinstance(rules, list)
        rules.append(entry)


def crd_text() -> str:
    """Return the CRD as YAML, as the chart keeps it."""
    head = "# Generated from the model by `python -m trainshed_api.crd`; do not edit.\n"
    return head + yaml.safe_dump(render_crd(), sort_keys=False, width=100)


if __name__ == "__main__":
    sys.stdout.write(crd_text())
