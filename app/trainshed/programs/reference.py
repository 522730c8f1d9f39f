"""The reference of the built-in programs: `python -m trainshed.programs.reference` prints it."""

import json
import sys
import textwrap
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from trainshed.programs.boosted_trees import BoostedTreesOptions
from trainshed.programs.models.cnn import CnnOptions
from trainshed.programs.models.vit import VitOptions
from trainshed.programs.tabular import TabularOptions

_HEAD: Final = """# Built-in programs

Generated from the options by `python -m trainshed.programs.reference`; do not edit.

Train without writing a function: name a built-in program in `spec.train` and set its options in
`spec.config`.

```yaml
spec:
  train: trainshed.programs.tabular:train
  config: {features: [sepal, petal], label: species, classes: 3, widths: [32, 32]}
```

`trainshed validate FILE` checks the options and names the nearest one for an unknown name. Each
program trains on the dataset `train` and, if there is a dataset `valid`, evaluates on it after each
epoch.
"""

_PROGRAMS: Final = (
    (
        "Classify images",
        "`trainshed.programs.vision:train` reads the columns `image` (H x W or H x W x C; uint8 "
        "from 0 to 255, or floats, which it does not scale) and `label` (integers). It trains with "
        "AdamW and cross-entropy, logs `loss` and `accuracy`, and shows sample images in the "
        "report. [Images](pictures.md) says how to decode and resize them.",
        (("`model: cnn`", CnnOptions), ("`model: vit`", VitOptions)),
    ),
    (
        "Classify rows, or predict a number",
        "`trainshed.programs.tabular:train` trains a multilayer perceptron in PyTorch with AdamW. "
        "Classification uses cross-entropy and shows a confusion matrix; regression uses the mean "
        "squared error. `trainshed.programs.keras_mlp:train` trains the same network in Keras "
        "(`framework: tensorflow`) and takes the same options, except `warmupSteps`.",
        (("", TabularOptions),),
    ),
    (
        "Boosted trees",
        "`trainshed.programs.boosted_trees:train` trains XGBoost (`framework: xgboost`). "
        "[XGBoost](frameworks.md#xgboost) says how it treats categories, ranking and resume.",
        (("", BoostedTreesOptions),),
    ),
)


def render_programs() -> str:
    """Return the options of all built-in programs as Markdown."""
    parts = [_HEAD]
    for title, text, variants in _PROGRAMS:
        parts.append(f"\n## {title}\n\n{textwrap.fill(text, 100, break_on_hyphens=False)}\n")
        for name, options in variants:
            parts.append(f"\nOptions of {name}:\n" if name else "")
            parts.append("\n| Option | Type | Default | Meaning |\n|---|---|---|---|\n")
            schema = _ObjectSchema.model_validate(options.model_json_schema())
            parts.extend(
                _row(option, field, required=option in schema.required)
                for option, field in schema.properties.items()
            )
    return "".join(parts)


class _FieldSchema(BaseModel):
    """What pydantic's JSON Schema says of one option."""

    model_config = ConfigDict(extra="ignore")

    type: str
    description: str
    default: JsonValue = None
    const: JsonValue = None
    choices: list[JsonValue] = Field(default=[], alias="enum")
    items: dict[str, JsonValue] = {}
    minimum: float | None = None
    above: float | None = Field(default=None, alias="exclusiveMinimum")
    below: float | None = Field(default=None, alias="exclusiveMaximum")


class _ObjectSchema(BaseModel):
    model_config = ConfigDict(extra="ignore")

    properties: dict[str, _FieldSchema]
    required: list[str] = []


def _row(option: str, field: _FieldSchema, *, required: bool) -> str:
    default = "required" if required else f"`{json.dumps(field.default)}`"
    return f"| `{option}` | {_type(field)} | {default} | {field.description} |\n"


def _type(field: _FieldSchema) -> str:
    if choices := field.choices or ([field.const] if field.const is not None else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    limits = (("at least", field.minimum), ("above", field.above), ("below", field.below))
    said = " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)
    name = {"array": f"list of {field.items.get('type')}s", "object": "map", "string": "text"}
    text = name.get(field.type, field.type).replace("strings", "texts")
    return f"{text} {said}".strip()


if __name__ == "__main__":
    sys.stdout.write(render_programs())
