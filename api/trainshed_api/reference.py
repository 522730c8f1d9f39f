"""The reference of the TrainingRun format: `python -m trainshed_api.reference` prints it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from trainshed_api.schema import MOST_COUNT
from trainshed_api.shape import Shape, training_run_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """# TrainingRun, trainshed.dev/v1alpha1

Generated from the model by `python -m trainshed_api.reference`; do not edit.

Look up a field here. Check a file with `trainshed validate FILE`, and see what it means for your
data with `trainshed explain FILE`.

*Change* says when you may change a field of an existing run:

| Change | Meaning |
|---|---|
| `live` | at any time, effective at once |
| `nextAttempt` | at any time, effective with the next attempt |
| `suspended` | while the run is suspended |
| `never` | immutable: create a new run to change it |

`NAME` stands for a name you choose, `[]` for each item of a list.

| Field | Type | Default | Change | Meaning |
|---|---|---|---|---|
"""


def render_reference() -> str:
    """Return the table of all fields as Markdown."""
    return _HEAD + "".join(
        _row(path, shape) for path, shape in iterate_fields(training_run_shape())
    )


def iterate_fields(shape: Shape, path: str = "") -> Iterator[tuple[str, Shape]]:
    """Yield path and shape of every field below, in the order of the model."""
    for name, field in shape.fields.items():
        place = f"{path}.{name}" if path else name
        yield place, field
        yield from _iterate_inside(field, place)


def _iterate_inside(shape: Shape, path: str) -> Iterator[tuple[str, Shape]]:
    yield from iterate_fields(shape, path)
    if shape.items:
        yield from _iterate_inside(shape.items, f"{path}[]")
    if shape.values:
        yield from _iterate_inside(shape.values, f"{path}.NAME")


def _row(path: str, shape: Shape) -> str:
    meaning = shape.description
    if shape.only_with:
        meaning += f" Only with `{shape.only_with}`."
    cells = (f"`{path}`", describe_type(shape), describe_default(shape), shape.mutable, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def describe_type(shape: Shape) -> str:
    """Return the type of a field in Markdown, with the bounds of integers."""
    if shape.choices:
        return ", ".join(f"`{choice}`" for choice in shape.choices)
    if shape.items:
        return f"list of {describe_type(shape.items)}"
    if shape.values:
        return f"map of {describe_type(shape.values)}"
    if shape.is_free_form:
        return "free-form map"
    if shape.type in ("integer", "number"):
        return shape.describe().removeprefix("an ").removesuffix(f" and <= {MOST_COUNT}")
    return {"string": "text", "boolean": "true, false"}.get(shape.type, "map")


def describe_default(shape: Shape) -> str:
    """Return the default of a field in Markdown; empty if there is none."""
    if shape.required:
        return "required"
    if shape.default is None:
        return ""
    return f"`{json.dumps(shape.default)}`"


if __name__ == "__main__":
    sys.stdout.write(render_reference())
