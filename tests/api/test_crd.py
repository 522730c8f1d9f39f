"""The CRD says what the model says, and the chart holds it as it is generated."""

from functools import cache
from pathlib import Path

import yaml
from pydantic import JsonValue

from trainshed_api.crd import render_crd
from trainshed_api.reference import iterate_fields
from trainshed_api.rules import iterate_rules
from trainshed_api.shape import Shape, training_run_shape

CHART_FILE = Path(__file__).parents[2] / "charts" / "trainshed" / "files" / "trainingruns.yaml"


def dig(value: JsonValue, *steps: str | int) -> JsonValue:
    for step in steps:
        if isinstance(step, int):
            assert isinstance(value, list)
            value = value[step]
        else:
            assert isinstance(value, dict), step
            value = value[step]
    return value


@cache
def spec_schema() -> JsonValue:
    return dig(
        render_crd(), "spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec"
    )


def place(path: str) -> JsonValue:
    """Return the CRD's schema of a field of the model."""
    schema = spec_schema()
    for step in path.replace("[]", ".[]").split(".")[1:]:
        if step == "[]":
            schema = dig(schema, "items")
        elif step == "NAME":
            schema = dig(schema, "additionalProperties")
        else:
            schema = dig(schema, "properties", step)
    return schema


def fields() -> dict[str, Shape]:
    return {
        path: shape
        for path, shape in iterate_fields(training_run_shape())
        if path.startswith("spec.")
    }


def test_chart_holds_the_crd_as_it_is_generated() -> None:
    committed = yaml.safe_load(CHART_FILE.read_text())

    assert committed == render_crd(), "run `make generate`"


def test_every_field_is_there_with_its_description_and_its_choices() -> None:
    for path, shape in fields().items():
        schema = place(path)
        assert isinstance(schema, dict)
        assert str(schema["description"]).startswith(shape.description), path
        if shape.choices:
            assert schema["enum"] == list(shape.choices), path


def test_defaults_are_those_of_the_model_unless_another_field_decides_on_them() -> None:
    for path, shape in fields().items():
        schema = place(path)
        assert isinstance(schema, dict)
        if shape.only_with or shape.required:
            assert "default" not in schema, path
        elif shape.default is not None:
            assert schema["default"] == shape.default, path


def test_a_field_is_filled_if_the_server_has_a_default_for_it_or_insists_on_it() -> None:
    for path, shape in fields().items():
        schema = place(path)
        assert isinstance(schema, dict)
        if not path.endswith((".NAME", "[]")):
            assert shape.filled == (shape.required or "default" in schema), path


def test_schema_is_structural() -> None:
    def check(schema: JsonValue, path: str) -> None:
        assert isinstance(schema, dict)
        assert not {"$ref", "anyOf", "oneOf", "title", "const"} & set(schema), path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        for name, inner in (schema.get("properties") or {}).items():  # type: ignore[union-attr]  # JSON
            check(inner, f"{path}.{name}")
        for word in ("items", "additionalProperties"):
            if word in schema:
                check(schema[word], f"{path}.{word}")

    check(dig(render_crd(), "spec", "versions", 0, "schema", "openAPIV3Schema"), "")


def test_every_rule_stands_at_an_object_that_has_the_field_at_fault() -> None:
    for rule in iterate_rules():
        if rule.path and rule.field:
            assert dig(place(rule.path), "properties", rule.field)
