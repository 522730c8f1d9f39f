"""What a TrainingRun asks for, read so that no object fills memory or is lost sight of. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError
from trainshed_api.json_object import as_object
from trainshed_api.kubeyaml import MOST_LEVELS
from trainshed_api.names import MAX_SPEC_BYTES
from trainshed_api.validation import validate_document

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject
    from trainshed_api.v1alpha1 import TrainingRunResource

# What no number is without; a list has a separator for each item.
_LEAST_BYTES = 1
_LONGEST_PROBLEM = 8000
# Begins a further step of a path such as failurePolicy.rules[0].action.
_STEP = re.compile(r"[.\[]")
# Takes the place of a program that cannot be read; the attempt's RayJob has the one that runs.
_UNREADABLE: JsonObject = {"entrypoint": ["unreadable"]}


@dataclass(frozen=True)
class Asked:
    """run: None where nothing can be run; problem: why, empty where it is valid."""

    run: TrainingRunResource | None
    problem: str = ""


def read_spec(document: JsonObject, *, is_under_way: bool) -> Asked:
    """Return the requested resources.

    document: of apiVersion, kind, metadata and spec, and nothing else. is_under_way: an attempt of
    it is open, which has to be seen to its end whatever the spec has become since.
    """
    try:
        if excess := _excess(document):
            raise SpecError([excess])
        return Asked(validate_document(document, "spec"))
    except SpecError as error:
        kept = _salvage(document) if is_under_way else None
        return Asked(kept, str(error)[:_LONGEST_PROBLEM])


def _excess(document: JsonObject) -> Problem | None:
    """Return what is too much of it, whatever it says; nothing of it is copied to find out."""
    labels = as_object(document.get("metadata")).get("labels")
    size, stack = 0, [(1, document.get("spec")), (1, labels)]
    while stack:
        level, value = stack.pop()
        if level > MOST_LEVELS:
            return Problem("spec", f"more than {MOST_LEVELS} levels", "fewer")
        size += len(value) if isinstance(value, (str, list, dict)) else _LEAST_BYTES
        if size > MAX_SPEC_BYTES:
            expected = f"at most {MAX_SPEC_BYTES // 1024} KiB; put large values in a file"
            return Problem("spec", f"more than {MAX_SPEC_BYTES // 1024} KiB", expected)
        if isinstance(value, dict):
            size += sum(len(key) for key in value)
            stack.extend((level + 1, item) for item in value.values())
        elif isinstance(value, list):
            stack.extend((level + 1, item) for item in value)
    return None


def _salvage(document: JsonObject) -> TrainingRunResource:
    """Return the run without the fields that cannot be read: suspend and deadlines mostly can."""
    metadata = as_object(document.get("metadata"))
    named: JsonObject = {"name": metadata.get("name"), "namespace": metadata.get("namespace")}
    spec = as_object(document.get("spec"))
    spec = {name: value for name, value in spec.items() if not _excess({"spec": value})}
    while True:
        if "train" not in spec and "entrypoint" not in spec:
            spec |= _UNREADABLE
        try:
            return validate_document(document | {"metadata": named, "spec": spec}, "spec")
        except SpecError as error:
            if spec == _UNREADABLE:
                raise
            wrong = {path for problem in error.problems for path in _paths_to(problem.field)}
            kept = _without(spec, "spec", wrong)
            # A rule may be about what is not there.
            spec = kept if kept != spec else {}


def _paths_to(field: str) -> set[str]:
    """Return the path of a field and of all that it is in."""
    return {field} | {field[: step.start()] for step in _STEP.finditer(field)}


def _without(value: JsonObject, path: str, wrong: set[str]) -> JsonObject:
    """Return the object without its innermost fields that are wrong; a list is one field.

    An object that is wrong as a whole, or that lacks a field, is left out.
    """
    kept: JsonObject = {}
    for name, item in value.items():
        inner = f"{path}.{name}"
        if inner not in wrong:
            kept[name] = item
        elif isinstance(item, dict) and (rest := _without(item, inner, wrong)) != item:
            kept[name] = rest
    return kept
