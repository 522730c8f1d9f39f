"""Values as short text and as JSON."""

import base64
import json

import numpy as np
import pytest

from trainshed.inspect.values import as_json, say_type, say_value

SAID: dict[str, tuple[object, str]] = {
    "an array": (np.arange(6, dtype=np.uint8).reshape(2, 3), "uint8[2, 3] 0 1 2 3 ..."),
    "a short array": (np.array([0.5, 1]), "float64[2] 0.5 1"),
    "bytes": (b"x" * 2300, "2.3 kB"),
    "a number": (np.float32(1 / 3), "0.333333"),
    "an integer": (np.int64(12345678), "12345678"),
    "nothing": (None, "\N{EN DASH}"),
    "a long text": ("word " * 1000, "word " * 11 + "wo..."),
    "a text that a terminal would obey": (
        "\x1b]0;mine\x07\u202eok\n",
        "\ufffd]0;mine\ufffd\ufffdok\ufffd",
    ),
    "a duration": (np.timedelta64(90, "s"), "90 seconds"),
    "no time": (np.datetime64("NaT"), "\N{EN DASH}"),
    "no duration": (np.timedelta64("NaT"), "\N{EN DASH}"),
    "an object": ({"a": 1, "b": [1, 2]}, "{a: 1, b: [1, 2]}"),
    "a long list": (list(range(9)), "[0, 1, 2, 3, ...]"),
    "markup": ("[red]x[/red]", "[red]x[/red]"),
}


@pytest.mark.parametrize("case", SAID)
def test_a_value_is_said_in_short(case: str) -> None:
    value, want = SAID[case]
    assert say_value(value) == want


def test_json_has_all_of_a_value() -> None:
    row = {
        "array": np.arange(4, dtype=np.float16).reshape(2, 2),
        "bytes": b"\x00\xff",
        "nan": np.float64("nan"),
        "time": np.datetime64("2026-01-31T17:05", "ms"),
        "no time": np.datetime64("NaT"),
        "duration": np.timedelta64(90, "s"),
        "durations": np.array([1, "NaT"], dtype="timedelta64[ms]"),
        "flag": np.bool_(True),
        "none": None,
        "object": {"a": [np.int8(1)]},
        "masked": np.ma.MaskedArray([2**53 + 1, 0], mask=[False, True]),
    }
    found = as_json(row)
    assert json.loads(json.dumps(found)) == {
        "array": [[0.0, 1.0], [2.0, 3.0]],
        "bytes": base64.b64encode(b"\x00\xff").decode(),
        "nan": None,
        "time": "2026-01-31T17:05:00.000",
        "no time": None,
        "duration": "90 seconds",
        "durations": ["1 milliseconds", None],
        "flag": True,
        "none": None,
        "object": {"a": [1]},
        "masked": [2**53 + 1, None],
    }


def test_a_type_names_what_rows_are() -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros(1, np.int8), np.zeros(2, np.int8)]
    assert say_type(np.zeros((2, 28, 28), np.float32)) == "float32[28, 28]"
    assert say_type(np.array(["a", "b"])) == "text"
    assert say_type(np.array(["a", None], dtype=object)) == "text"
    assert say_type(np.array([b"a"], dtype=object)) == "bytes"
    assert say_type(ragged) == "int8 lists"
    assert say_type(np.array([None], dtype=object)) == "nothing"
