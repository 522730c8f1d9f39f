"""Formats values: short for people, complete JSON for programs. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sources.column_arrays import is_text
from trainshed.display.formatting import MISSING, say_bytes, say_plainly

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainshed.data.sources.column_arrays import Array

# Characters of a text in a table, and of an array's values.
MOST_CHARACTERS = 60
MOST_VALUES = 4


def say_value(value: object) -> str:
    """Return a value on one short line: arrays by type, shape and first values, bytes by size."""
    match value:
        case None:
            said = MISSING
        case np.datetime64() | np.timedelta64():
            said = MISSING if np.isnat(value) else str(value)
        case np.ndarray():
            said = _say_array(value)
        case bytes() | bytearray() | memoryview():
            said = say_bytes(len(value))
        case float() | np.floating():
            said = f"{float(value):.6g}"
        case Mapping():
            said = f"{{{', '.join(f'{key}: {say_value(each)}' for key, each in value.items())}}}"
        case list() | tuple():
            more = ", ..." if len(value) > MOST_VALUES else ""
            said = f"[{', '.join(say_value(each) for each in value[:MOST_VALUES])}{more}]"
        case _:
            said = str(value)
    said = say_plainly(said[: 2 * MOST_CHARACTERS])
    return said if len(said) <= MOST_CHARACTERS else f"{said[: MOST_CHARACTERS - 3]}..."


def say_type(array: Array) -> str:
    """Return the type of a column's rows: float32[28, 28], text, bytes, ..."""
    if array.dtype == object and array.ndim == 1:
        kinds = {_kind(value) for value in array.tolist() if value is not None}
        return " or ".join(sorted(kinds)) or "nothing"
    kind = "text" if is_text(array) else str(array.dtype)
    return f"{kind}{list(array.shape[1:]) if array.ndim > 1 else ''}"


def as_json(value: object) -> JsonValue:
    """Return a value as JSON: arrays as lists, bytes in base64, times as ISO 8601.

    Masked values, NaN, infinity and NaT become null.
    """
    found: JsonValue = None
    match value:
        case np.ma.core.MaskedConstant():
            pass
        case np.ndarray() | list() | tuple():
            found = [as_json(each) for each in value]
        case bytes() | bytearray() | memoryview():
            found = base64.b64encode(value).decode()
        case Mapping():
            found = {str(key): as_json(each) for key, each in value.items()}
        case np.datetime64() | np.timedelta64():  # NumPy's durations are integers, too
            found = None if np.isnat(value) else str(value)
        case bool() | np.bool_():
            found = bool(value)
        case int() | np.integer():
            found = int(value)
        case float() | np.floating():
            found = float(value) if math.isfinite(value) else None
        case None:
            pass
        case _:
            found = str(value)
    return found


def as_key(kind: object) -> JsonValue:
    """Return a counted value as JSON; only missing values become null.

    Bytes that are not text, and infinite numbers, become text.
    """
    if isinstance(kind, bytes):
        return kind.decode(errors="backslashreplace")
    if isinstance(kind, float) and math.isinf(kind):
        return str(kind)
    return as_json(kind)


def _say_array(array: Array) -> str:
    some = " ".join(say_value(each) for each in array.reshape(-1)[:MOST_VALUES])
    more = " ..." if array.size > MOST_VALUES else ""
    kind = "" if array.dtype == object else str(array.dtype)
    return f"{kind}{list(array.shape)} {some}{more}"


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        inner = "" if value.dtype == object else f"{value.dtype} "
        return f"{inner}arrays with {value.ndim} axes" if value.ndim > 1 else f"{inner}lists"
    names = {"str": "text", "dict": "objects", "list": "lists"}
    return names.get(type(value).__name__, type(value).__name__)
