"""From a document to a TrainingRun, pydantic's findings said in the words of the file's author."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from trainshed_api.errors import Problem, RuleError, SpecError, nearest, show_value
from trainshed_api.kubeyaml import refuse_deep
from trainshed_api.schema import normalise_json
from trainshed_api.shape import Shape, shape_at
from trainshed_api.v1alpha1 import TrainingRunResource

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Path = Sequence[str | int]

_NOT_YET = "not yet supported in this version"


def validate_document(document: JsonValue, source: str) -> TrainingRunResource:
    """Return the TrainingRun. Raises SpecError with every mistake found."""
    refuse_deep(document, source)
    if not isinstance(document, dict):
        raise SpecError([Problem(source, show_value(document), "a TrainingRun object")], source)
    try:
        # Only camelCase: the API server knows no other spelling.
        return TrainingRunResource.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = [problem for detail in error.errors() for problem in _translate(detail)]
        raise SpecError(problems, source) from None
    except UnicodeEncodeError as error:  # pydantic-core's own, which names no field
        got = ascii(error.object)[:80]
        raise SpecError([Problem(source, got, "whole Unicode characters")], source) from None


def format_path(path: Path) -> str:
    """Return a path as users write it: spec.data.datasets.train.transforms[0].use."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _translate(detail: ErrorDetails) -> list[Problem]:
    path, value = detail["loc"], detail["input"]
    name = format_path(path)
    match detail["type"]:
        case "extra_forbidden":
            return [Problem(name, None, _explain_unknown(path))]
        case "value_error":
            return _place_rules(name, detail)
    shape = shape_at(path)
    wanted = shape.describe() if shape else "another value"
    if detail["type"] == "missing":
        return [Problem(name, None, f"missing; expected {wanted}")]
    if wanted.startswith("a text") and isinstance(value, bool):
        wanted += ". YAML takes y, n, yes, no, on and off for truth values: write them in quotes"
    elif wanted == "a text" and isinstance(value, (int, float)):
        wanted = "a text; put it in quotes"
    return [Problem(name, show_value(value), wanted)]


def _place_rules(name: str, detail: ErrorDetails) -> list[Problem]:
    """Return the problems of a rule of the model, their paths made absolute."""
    error = detail.get("ctx", {}).get("error")
    if not isinstance(error, RuleError):
        raise AssertionError(f"{name}: every rule of the model raises RuleError") from error
    return [
        Problem(
            problem.field if not name else f"{name}.{problem.field}".rstrip(".").replace(".[", "["),
            problem.got,
            problem.expected,
        )
        for problem in error.problems
    ]


def _explain_unknown(path: Path) -> str:
    shape, name = shape_at(path[:-1]), str(path[-1])
    if shape is None:
        return "unknown field"
    if name in shape.planned_fields:
        return _NOT_YET
    return "unknown field" + _suggest(name, shape)


def _suggest(name: str, shape: Shape) -> str:
    if near := nearest(name, shape.fields):
        return f'; did you mean "{near}"?'
    return "; valid here: " + ", ".join(shape.fields)


def normalise_document(document: JsonValue, source: str) -> JsonValue:
    """Return the document as the API server would hand it back: 5.0 is 5. Raises SpecError."""
    refuse_deep(document, source)
    try:
        return normalise_json(document)
    except RuleError as error:
        raise SpecError(error.problems, source) from None
