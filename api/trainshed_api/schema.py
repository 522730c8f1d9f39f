"""What all parts of the TrainingRun model are made of: the strict base model and the field types.

The model must be able to become a structural CRD: no unions but Optional, no recursion, `ge`/`le`
bounds only (pydantic emits a numeric exclusiveMinimum for `gt`, a CRD wants a boolean).
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
)
from pydantic.alias_generators import to_camel

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.quantity import MOST_BYTES, MOST_CORES, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic.fields import FieldInfo

ReadBy = Literal["app", "controller", "both"]
Mutable = Literal["live", "nextAttempt", "suspended", "never"]

_MODULE_FUNCTION = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT64_END = 2.0**63
# What Kubernetes counts with: no field counts further.
MOST_COUNT = 2**31 - 1
LEAST_WEIGHT = 1e-6
CORES_EXAMPLE, BYTES_EXAMPLE = "2 or 500m", "8Gi"


def annotate(read_by: ReadBy, mutable: Mutable, *, only_with: str = "") -> dict[str, JsonValue]:
    """Return what a field says about itself beyond its type.

    read_by: who acts on it. mutable: when the field of an existing run may change. only_with: the
    sibling field without which it is refused.
    """
    extra: dict[str, JsonValue] = {"readBy": read_by, "mutable": mutable}
    if only_with:
        extra["onlyWith"] = only_with
    return extra


def earlier_default(field: FieldInfo) -> str | None:
    """Return the default that a field had in earlier releases, if it was another one."""
    extra = field.json_schema_extra
    was = extra.get("was") if isinstance(extra, dict) else None
    return was if isinstance(was, str) else None


class SpecModel(BaseModel):
    """Base of all parts of the resource: immutable, camelCase outside, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


def _accept_integral_float(value: object) -> object:
    """Return 5 for 5.0: JSON does not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spell_quantity(value: object) -> object:
    """Return an integer as text; other values stay.

    Raises RuleError for a bare fraction: a CRD can take integers and texts there, and no third.
    """
    whole = _accept_integral_float(value)
    if isinstance(whole, float):
        expected = f'"{whole}" in quotes: Kubernetes takes bare whole numbers only'
        raise RuleError([Problem("", str(whole), expected)])
    if isinstance(whole, int) and not isinstance(whole, bool):
        return str(whole)
    return value


def expected_quantity(most: str, example: str) -> str:
    """Return what a quantity has to be, in words."""
    return f"a Kubernetes quantity above 0 and at most {most}, such as {example}"


def _bound_quantity(most: str, example: str) -> AfterValidator:
    def refuse(text: str) -> str:
        with contextlib.suppress(ValueError):
            if 0 < parse_quantity(text) <= parse_quantity(most):
                return text
        raise RuleError([Problem("", show_value(text), expected_quantity(most, example))])

    return AfterValidator(refuse)


def normalise_json(value: JsonValue, path: str = "") -> JsonValue:
    """Return the value as the API server would hand it back: an integral float is an integer.

    Raises RuleError for what JSON cannot carry: NaN, infinity, half of a character.
    """
    if isinstance(value, dict):
        names: Iterable[object] = value  # YAML has others than texts
        for name in names:
            if not isinstance(name, str):
                expected = "names that are texts. Put it in quotes"
                raise RuleError([Problem(path, f"the name {name}", expected)])
            _refuse_half_characters(name, path)
        return {
            key: normalise_json(item, f"{path}.{key}" if path else key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [normalise_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RuleError([Problem(path, str(value), "a finite number, JSON has no other")])
        # Beyond int64 the API server keeps a float.
        return int(value) if value.is_integer() and -_INT64_END <= value < _INT64_END else value
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and not -_INT64_END <= value < _INT64_END
    ):
        try:
            return float(value)
        except OverflowError:
            got = f"an integer of {value.bit_length()} bits"
            raise RuleError([Problem(path, got, "a number below 1.8e308")]) from None
    if isinstance(value, str):
        _refuse_half_characters(value, path)
    return value


def _refuse_half_characters(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RuleError([Problem(path, ascii(text)[:80], "whole Unicode characters")]) from None


def _refuse_env_names(env: dict[str, str]) -> dict[str, str]:
    problems = [
        Problem(name, None, "expected a name of letters, digits and _ that starts with no digit")
        for name in env
        if not _ENV_NAME.fullmatch(name)
    ]
    problems += [
        Problem(
            name,
            None,
            "set by Trainshed. Choose a name without the prefix TRAINSHED_",
        )
        for name in env
        if name.startswith("TRAINSHED_")
    ]
    if problems:
        raise RuleError(problems)
    return env


Integer = Annotated[int, Strict(), BeforeValidator(_accept_integral_float)]
# The bounds stand before the validator: after it, pydantic's schema has none.
Count = Annotated[
    int, Field(ge=1, le=MOST_COUNT), Strict(), BeforeValidator(_accept_integral_float)
]
Seconds = Annotated[
    int, Field(ge=0, le=MOST_COUNT), Strict(), BeforeValidator(_accept_integral_float)
]
Boolean = Annotated[bool, Strict()]
Cores = Annotated[
    str,
    BeforeValidator(_spell_quantity),
    _bound_quantity(MOST_CORES, CORES_EXAMPLE),
    Field(json_schema_extra={"quantity": True}),
]
Bytes = Annotated[
    str,
    BeforeValidator(_spell_quantity),
    _bound_quantity(MOST_BYTES, BYTES_EXAMPLE),
    Field(json_schema_extra={"quantity": True}),
]
Weight = Annotated[
    float,
    Field(ge=LEAST_WEIGHT, le=MOST_COUNT, json_schema_extra={"expected": "a number above 0"}),
    Strict(),
]
Share = Annotated[
    float,
    Field(
        ge=LEAST_WEIGHT,
        le=1 - LEAST_WEIGHT,
        json_schema_extra={"expected": "a number between 0 and 1, such as 0.2"},
    ),
    Strict(),
]
Weights = Annotated[dict[str, Weight], Field(min_length=1)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(normalise_json)]
Environment = Annotated[dict[str, str], AfterValidator(_refuse_env_names)]
FunctionName = Annotated[
    str,
    Field(
        pattern=_MODULE_FUNCTION,
        json_schema_extra={"expected": "module:function, such as my_package.my_module:train"},
    ),
]
ReaderName = Annotated[
    str,
    Field(
        pattern=r"^(read|from)_[a-z0-9_]+$",
        max_length=63,
        json_schema_extra={"expected": "a reader of ray.data, such as read_sql"},
    ),
]
NonEmpty = Annotated[str, Field(min_length=1)]
ObjectName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        max_length=253,
        json_schema_extra={
            "expected": "a name of at most 253 of a-z, 0-9, - and ., none of the last two first or "
            "last"
        },
    ),
]
DnsName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        json_schema_extra={
            "expected": "a name of at most 63 of a-z, 0-9 and -, no - first or last"
        },
    ),
]
