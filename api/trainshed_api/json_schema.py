"""Reading the JSON schema that pydantic makes of a model."""

from __future__ import annotations

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]


def resolve(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Return the schema without $ref and without the null of an Optional; outer keys win."""
    options = schema.get("anyOf")
    if isinstance(options, list):
        real = [as_object(o) for o in options if as_object(o).get("type") != "null"]
        return resolve(real[0], definitions) | {k: v for k, v in schema.items() if k != "anyOf"}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = as_object(definitions[reference.rpartition("/")[2]])
        return target | {k: v for k, v in schema.items() if k != "$ref"}
    return schema


def as_object(value: JsonValue) -> JsonObject:
    """Return the value, or an empty object where it is something else."""
    return value if isinstance(value, dict) else {}
