"""Options of built-in programs in `spec.config`, their columns, and the messages for wrong ones.

A program declares one frozen model on top of those here. Their names in a file are
camelCase; unknown names are refused, with the nearest known one.
"""

from collections.abc import Mapping
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from trainshed_api.errors import Problem, SpecError, nearest, no_column, show_value

Column = TypeVar("Column")


class Options(BaseModel):
    """Options of a built-in program of any framework."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    @classmethod
    def read(cls, config: Mapping[str, object]) -> Self:
        """Return the options that `config` spells.

        Raises:
            SpecError: with each fault, naming `spec.config.<name>`.
        """
        try:
            return cls.model_validate(dict(config))
        except ValidationError as error:
            known = [field.alias or name for name, field in cls.model_fields.items()]
            raise SpecError(_translate(detail, known) for detail in error.errors()) from None


class ProgramOptions(Options):
    """Options of every built-in program of PyTorch."""

    learning_rate: float = Field(
        default=0.001, gt=0, description="Learning rate of AdamW, above 0."
    )
    weight_decay: float = Field(default=0.0, ge=0, description="Weight decay of AdamW, at least 0.")
    warmup_steps: int = Field(default=0, ge=0, description="Steps of linear learning rate warm-up.")


class ImageOptions(ProgramOptions):
    """Options of every model that looks at square pictures."""

    image_size: int = Field(
        default=32, ge=1, description="Height and width of the images in pixels."
    )
    channels: Literal[1, 3] = Field(default=3, description="1 for grayscale, 3 for RGB.")
    classes: int = Field(
        default=10, ge=2, description="Number of classes; labels are 0 to classes - 1."
    )


def fault(name: str, value: object, expected: str) -> SpecError:
    """Return the error that says what `spec.config.<name>` is and what would be right."""
    return SpecError([Problem(f"spec.config.{name}", show_value(value), expected)])


def _translate(detail: ErrorDetails, known: list[str]) -> Problem:
    name = ".".join(str(part) for part in detail["loc"])
    field = f"spec.config.{name}"
    match detail["type"]:
        case "extra_forbidden":
            near = nearest(name, known)
            hint = f'did you mean "{near}"?' if near else f"valid here: {', '.join(known)}"
            return Problem(field, None, f"unknown field; {hint}")
        case "missing":
            return Problem(field, None, "missing")
    expected = detail["msg"].removeprefix("Input should be ").removeprefix("List should have ")
    expected = expected.partition(" after validation")[0]
    if expected.startswith(("greater", "less")):
        expected = f"a number {expected}"
    return Problem(field, show_value(detail["input"]), expected)


def pick(batch: Mapping[str, Column], column: str) -> Column:
    """Return a column.

    Raises:
        ValueError: naming the columns there are.
    """
    if column not in batch:
        raise ValueError(
            f"{no_column(column, batch)}. The transform trainshed.transforms:rename gives a column "
            "another name."
        )
    return batch[column]
