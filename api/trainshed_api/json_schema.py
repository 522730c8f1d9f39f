"""Reading the JSON schema that pydantic makes of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.json_object import as_object

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject


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
