"""Converts the constants of a condition to the types of the columns beside them. Pure."""

from __future__ import annotations

import datetime
import functools
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from trainshed_api.errors import show_value
from trainshed_api.where import Unquoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_api.where import Value

# Holds every decimal of 128 bits and every unsigned integer. Arrow compares no decimal with a
# number of another type, and no unsigned integer of 64 bits with a signed one.
_EXACT = pa.decimal256(76, 38)
_WIDER = {
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ONLY_MISSING = (
    "`is None` or `is not None`, the only conditions on this type. Use a filter transform"
)


class MisfitError(ValueError):
    """A constant that is no value of the type of its column.

    got: it, with the column and its type. expected: a constant that would do.
    """

    def __init__(self, column: str, value: Value, kind: pa.DataType, expected: str) -> None:
        super().__init__(column, value, kind, expected)
        self.got = f"{show_value(value)} for column {column} of type {kind}"
        self.expected = expected


def compared_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow compares the values of a column exactly."""
    if pa.types.is_dictionary(kind):
        return compared_as(kind.value_type)
    if pa.types.is_decimal(kind) or pa.types.is_uint64(kind):
        return _EXACT
    if pa.types.is_timestamp(kind):  # NumPy has no zones: all times of rows are in UTC
        return pa.timestamp(kind.unit, "UTC")
    return _WIDER.get(kind, kind)


@functools.lru_cache(maxsize=1024, typed=True)
def literal(column: str, value: Value, kind: pa.DataType) -> pa.Scalar:
    """Return a constant as a value to compare with a column of a type, as `compared_as` has it.

    Raises:
        MisfitError: if the type has no such value.
    """
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    family = next((each for each in _FAMILIES if each.has(stored)), None)
    if family is None:
        raise MisfitError(column, value, kind, _ONLY_MISSING)
    try:
        return family.convert(value, stored)
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise MisfitError(column, value, kind, family.expected) from error


def _boolean(value: Value, _: pa.DataType) -> pa.Scalar:
    if value not in {0, 1}:
        raise ValueError(value)
    return pa.scalar(bool(value))


def _integer(value: Value, _: pa.DataType) -> pa.Scalar:
    number = _number(value)
    return pa.scalar(int(number) if int(number) == number else number)


def _float(value: Value, kind: pa.DataType) -> pa.Scalar:
    """Return the nearest number that the type has: float32 has no exact 0.1."""
    with np.errstate(over="ignore"):
        return pa.scalar(float(kind.to_pandas_dtype()(_number(value))))


def _decimal(value: Value, _: pa.DataType) -> pa.Scalar:
    value = str(value) if isinstance(value, Unquoted) else value
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return pa.scalar(number, _EXACT)


def _time(value: Value, kind: pa.DataType) -> pa.Scalar:
    """Return a time in UTC. Without a zone it is in UTC; columns without a zone take no other."""
    text, utc = pa.scalar(_text(value)), compared_as(kind)
    try:
        return text.cast(pa.timestamp(kind.unit)).cast(utc)
    except pa.ArrowInvalid:
        if kind.tz is None:
            raise
        return text.cast(utc)


def _time_of_day(value: Value, _: pa.DataType) -> pa.Scalar:
    return pa.scalar(datetime.time.fromisoformat(_text(value)))


def _number(value: Value) -> bool | float:
    if isinstance(value, Unquoted) and _NUMBER.fullmatch(value):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if isinstance(value, str):
        raise ValueError(value)
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


class _Family(NamedTuple):
    """Types whose constants are written alike, how they are converted, and an example of one."""

    has: Callable[[pa.DataType], bool]
    convert: Callable[[Value, pa.DataType], pa.Scalar]
    expected: str


# The first that has a type decides.
_FAMILIES = (
    _Family(pa.types.is_null, lambda value, _: pa.scalar(value), "any constant"),
    _Family(pa.types.is_boolean, _boolean, "True or False"),
    _Family(
        pa.types.is_uint64,
        lambda value, kind: _decimal(_number(value), kind),
        "a number without quotes, such as 5",
    ),
    _Family(pa.types.is_integer, _integer, "a number of at most 64 bits without quotes, such as 5"),
    _Family(pa.types.is_floating, _float, "a number without quotes, such as 1.5"),
    _Family(pa.types.is_decimal, _decimal, "a number such as 1.5"),
    _Family(
        lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view()),
        lambda value, _: pa.scalar(str(_text(value))),
        'a text in quotes, such as "train"',
    ),
    _Family(
        lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view()),
        lambda value, _: pa.scalar(_text(value).encode()),
        'a text in quotes, such as "train"',
    ),
    _Family(
        pa.types.is_date,
        lambda value, _: pa.scalar(_text(value)).cast(pa.date32()),
        'a date such as "2024-01-31"',
    ),
    _Family(
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
        _time,
        'a time without a zone, such as "2024-01-31" or "2024-01-31 12:30:00"',
    ),
    _Family(
        pa.types.is_timestamp,
        _time,
        'a time such as "2024-01-31" or "2024-01-31 12:30:00+01:00"',
    ),
    _Family(pa.types.is_time, _time_of_day, 'a time of day such as "12:30:00"'),
)
