"""The TrainingRun model as a plain tree: what error texts, docs and the CRD are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.json_schema import resolve
from trainshed_api.v1alpha1 import TrainingRunResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel, JsonValue


@dataclass(frozen=True)
class Shape:
    """One place in the model: its type, bounds and what it says about itself.

    fields: of an object. values: of a map with free keys. items: of a list.
    filled: whether the API server holds it for every object, as the CRD has a default for it.
    is_free_form: whether any JSON object is right here.
    planned_fields: names that a later version will take here.
    was: the default of earlier releases, which stored objects have.
    """

    type: str
    description: str = ""
    default: JsonValue = None
    required: bool = False
    filled: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    expected: str = ""
    read_by: str = ""
    mutable: str = ""
    only_with: str = ""
    is_free_form: bool = False
    planned_fields: tuple[str, ...] = ()
    was: str = ""
    fields: dict[str, Shape] = field(default_factory=dict)
    values: Shape | None = None
    items: Shape | None = None

    def describe(self) -> str:
        """Return what is accepted here, to stand after "expected"."""
        if self.expected:
            return self.expected
        if self.choices:
            return (
                self.choices[0] if len(self.choices) == 1 else "one of " + ", ".join(self.choices)
            )
        if self.type == "integer":
            bounds = [f">= {self.minimum}"] if self.minimum is not None else []
            bounds += [f"<= {self.maximum}"] if self.maximum is not None else []
            return " ".join(["an integer", " and ".join(bounds)]).strip()
        return {
            "number": "a number",
            "string": "a text that is not empty" if self.minimum else "a text",
            "boolean": "true or false",
            "object": "a map",
            "array": "a list that is not empty" if self.minimum else "a list",
        }.get(self.type, "another value")


@cache
def training_run_shape() -> Shape:
    """Return the shape of the whole TrainingRun."""
    return shape_of(TrainingRunResource)


def shape_of(model: type[BaseModel]) -> Shape:
    """Return the shape of a model, with the names that its fields have in files."""
    schema: JsonObject = model.model_json_schema(by_alias=True, mode="validation")
    return _build(schema, as_object(schema.get("$defs")), required=True)


def shape_at(path: Sequence[str | int]) -> Shape | None:
    """Return the shape at the end of keys and indices; None where the model has none."""
    shape: Shape | None = training_run_shape()
    for step in path:
        if shape is None:
            return None
        shape = shape.items if isinstance(step, int) else shape.fields.get(step, shape.values)
    return shape


def _build(schema: JsonObject, definitions: JsonObject, *, required: bool) -> Shape:
    is_optional = "anyOf" in schema  # or null
    schema = resolve(schema, definitions)
    names_required = _texts(schema.get("required"))
    is_object = schema.get("type") == "object"
    # As crd.py has it: an object has one unless it may be null.
    has_default = schema.get("default") is not None or (is_object and not is_optional)
    minimum = schema.get("minimum", schema.get("minLength", schema.get("minItems")))
    maximum = schema.get("maximum")
    values = _build_inner(schema.get("additionalProperties"), definitions)
    constant = schema.get("const")
    choices = (str(constant),) if constant is not None else _texts(schema.get("enum"))
    return Shape(
        type=str(schema.get("type", "")),
        description=str(schema.get("description", "")),
        default=schema.get("default"),
        required=required,
        filled=required or ("onlyWith" not in schema and has_default),
        minimum=minimum if isinstance(minimum, int | float) else None,
        maximum=maximum if isinstance(maximum, int | float) else None,
        choices=choices,
        expected=str(schema.get("expected", "")),
        read_by=str(schema.get("readBy", "")),
        mutable=str(schema.get("mutable", "")),
        only_with=str(schema.get("onlyWith", "")),
        is_free_form=is_object and values is None and "properties" not in schema,
        planned_fields=_texts(schema.get("planned")),
        was=str(schema.get("was", "")),
        fields={
            name: _build(as_object(item), definitions, required=name in names_required)
            for name, item in as_object(schema.get("properties")).items()
        },
        values=values,
        items=_build_inner(schema.get("items"), definitions),
    )


def _build_inner(schema: JsonValue, definitions: JsonObject) -> Shape | None:
    """Return the shape of values or items; None where there are none, or any JSON will do."""
    inner = resolve(as_object(schema), definitions)
    return _build(inner, definitions, required=False) if inner else None


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
