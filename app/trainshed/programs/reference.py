"""The reference of the built-in programs: `python -m trainshed.programs.reference` prints it."""

from __future__ import annotations

import re
import sys
import textwrap
from itertools import starmap
from typing import TYPE_CHECKING, Final

from trainshed.programs.boosted_trees import BoostedTreesOptions
from trainshed.programs.models.cnn import CnnOptions
from trainshed.programs.models.vit import VitOptions
from trainshed.programs.tabular import TabularOptions
from trainshed_api.reference import describe_default, describe_type
from trainshed_api.shape import Shape, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = """# Built-in programs

Generated from the options by `python -m trainshed.programs.reference`; do not edit. `trainshed
explain --program NAME` prints the same.

Train without writing a function: name a built-in program in `spec.train` and set its options in
`spec.config`.

```yaml
spec:
  train: trainshed.programs.tabular:train
  config: {features: [sepal, petal], label: species, classes: 3, widths: [32, 32]}
```

`trainshed validate FILE` checks the options and names the nearest one for an unknown name. It
also checks the first rows: columns that are missing, the size of pictures, the number of features.
Each program trains on the dataset `train` and, if there is a dataset `valid`, evaluates on it after
each epoch.
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

# Names that `trainshed explain --program` takes: the modules of this package that train.
PROGRAMS: Final = ("vision", "tabular", "keras_mlp", "boosted_trees")
_LINK: Final = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


def render_programs() -> str:
    """Return the options of all built-in programs as Markdown."""
    parts = [_HEAD]
    for title, text, variants in _PROGRAMS:
        parts.append(f"\n## {title}\n\n{textwrap.fill(text, 100, break_on_hyphens=False)}\n")
        for name, options in variants:
            parts.append(f"\nOptions of {name}:\n" if name else "")
            parts.append("\n| Option | Type | Default | Meaning |\n|---|---|---|---|\n")
            parts.extend(starmap(_row, shape_of(options).fields.items()))
    return "".join(parts)


def program_lines(name: str) -> Iterator[str]:
    """Yield what a program does and its options, for a terminal; name: one of PROGRAMS."""
    [(title, text, variants)] = [each for each in _PROGRAMS if _module_of(name) in each[1]]
    yield title
    yield from textwrap.wrap(_LINK.sub(r"docs/\2", text).replace("`", ""), 100)
    for variant, options in variants:
        yield ""
        yield f"Options of {variant.strip('`')}:" if variant else "Options, in spec.config:"
        for option, field in shape_of(options).fields.items():
            default = describe_default(field).strip("`")
            said = default if default == "required" else f"default {default}"
            yield f"  {option}: {describe_type(field).replace('`', '')}, {said}"
            indent = "      "
            yield from textwrap.wrap(
                field.description, 100, initial_indent=indent, subsequent_indent=indent
            )


def _module_of(name: str) -> str:
    return f"`trainshed.programs.{name}:train`"


def _row(option: str, field: Shape) -> str:
    cells = (f"`{option}`", describe_type(field), describe_default(field), field.description)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(render_programs())
