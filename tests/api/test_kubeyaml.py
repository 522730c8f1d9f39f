"""YAML means here what it means to kubectl: wanted values are those of sigs.k8s.io/yaml 1.6."""

from typing import NamedTuple

import pytest
from pydantic import JsonValue

from trainshed_api.errors import SpecError
from trainshed_api.kubeyaml import line_of, parse_json, parse_yaml

SCALARS: dict[str, JsonValue] = {
    "1e-3": 0.001,
    "1e3": 1000.0,
    "1.5e+3": 1500.0,
    "1E5": 100000.0,
    "1.": 1.0,
    ".5": 0.5,
    "+.5": 0.5,
    ".5_0": 0.5,
    "-0": 0,
    "+1": 1,
    "1:30": "1:30",
    "1_000": 1000,
    "1_": 1,
    "_1": "_1",
    "014": 12,
    "-014": -12,
    "0o14": 12,
    "08": 8.0,
    "0x1F": 31,
    "-0x10": -16,
    "0b11": 3,
    "0x": "0x",
    "0o8": "0o8",
    "0x1p-2": "0x1p-2",
    "9223372036854775808": 9223372036854775808,
    "18446744073709551616": 1.8446744073709552e19,
    "-9223372036854775809": -9.223372036854775809e18,
    "1e400": "1e400",
    "1e-400": 0.0,
    "1,000": "1,000",
    "--1": "--1",
    ".": ".",
    "+-1": "+-1",
    "yes": True,
    "Yes": True,
    "YES": True,
    "y": True,
    "Y": True,
    "on": True,
    "On": True,
    "true": True,
    "no": False,
    "n": False,
    "off": False,
    "OFF": False,
    "False": False,
    "tRUE": "tRUE",
    "yES": "yES",
    "~": None,
    "null": None,
    "Null": None,
    "": None,
    "nUll": "nUll",
    "nan": "nan",
    "inf": "inf",
    "2020-01-01": "2020-01-01",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "=": "=",
    '"12"': "12",
    "'on'": "on",
    '""': "",
    "!!str 12": "12",
    '!!int "12"': 12,
    "!!float 3": 3.0,
    '!!bool "yes"': True,
    "!mine text": "text",
    "http://host:80/x": "http://host:80/x",
}


@pytest.mark.parametrize("text", SCALARS)
def test_scalar_means_what_it_means_to_kubectl(text: str) -> None:
    [document] = parse_yaml(f"a: {text}", "test")

    assert isinstance(document, dict)
    value = document["a"]
    assert value == SCALARS[text]
    assert type(value) is type(SCALARS[text])


STRUCTURES: dict[str, tuple[str, JsonValue]] = {
    "a whole number as key is a text": ("1: a", {"1": "a"}),
    "a hexadecimal key is its number": ("0x10: a", {"16": "a"}),
    "a truth value as key is true or false": ("true: a", {"true": "a"}),
    "an anchor is copied": ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    "a written key wins over one merged before": (
        "a: &x {b: 1, c: 1}\nd: {<<: *x, b: 2}",
        {"a": {"b": 1, "c": 1}, "d": {"b": 2, "c": 1}},
    ),
    "a merge wins over a key written before": (
        "a: &x {b: 1}\nd: {b: 2, <<: *x}",
        {"a": {"b": 1}, "d": {"b": 1}},
    ),
    "the first of several merged maps wins": (
        "a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne: {<<: [*x, *y]}",
        {"a": {"b": 1}, "c": {"b": 2, "d": 3}, "e": {"b": 1, "d": 3}},
    ),
    "a merge sign in quotes is a key": ("'<<': 1", {"<<": 1}),
    "a block of text is a text": ("a: |\n  12\n", {"a": "12\n"}),
    "a function name needs no quotes": ("a: {use: my.module:f}", {"a": {"use": "my.module:f"}}),
}


@pytest.mark.parametrize("case", STRUCTURES)
def test_structure_means_what_it_means_to_kubectl(case: str) -> None:
    text, want = STRUCTURES[case]

    assert parse_yaml(text, "test") == [want]


class Refused(NamedTuple):
    """A text, and what the error says."""

    text: str
    want: str


REFUSED: dict[str, Refused] = {
    "infinity": Refused(
        "a: .inf", "run.yaml, line 1, column 4: got .inf; expected a finite number"
    ),
    "no number": Refused("a: .NaN", "line 1, column 4: got .NaN; expected a finite number"),
    "a key set twice": Refused("a: 1\nb: 2\na: 3", 'line 3, column 1: "a" is set twice'),
    "the same key as number and text": Refused('1: a\n"1": b', '"1" is set twice'),
    "null as key": Refused("~: 1", "a key that is no text; put it in quotes"),
    "a fraction as key": Refused("1.5: 1", "a key that is no text; put it in quotes"),
    "a list as key": Refused("? [a]\n: 1", "a key that is no text; put it in quotes"),
    "a word that is a truth value as key": Refused(
        "a: {n: 1}",
        "run.yaml, line 1, column 5: the key n is the truth value false in YAML 1.1. Write it in "
        'quotes: "n"',
    ),
    "a key without a colon": Refused("a: 1\nb\nc: 2", "line 2, column 1: no valid YAML: a key"),
    "an indentation of its own": Refused("a:\n    b: 1\n  c: 2", "YAML: the indentation is not"),
    "a colon in a value": Refused("a: b: c", "line 1, column 5: no valid YAML: a colon in a value"),
    "an open quote": Refused("a: 'b\n", "no valid YAML: a quote is not closed. Close it. Reported"),
    "a value with an at sign": Refused("a: @b", "a value that begins with this sign has to be in"),
    "a merge of no map": Refused("a: {<<: 3}", "<< merges a map or a list of maps"),
    "an anchor inside itself": Refused("a: &x [*x]", "an anchor that contains itself"),
    "an unknown anchor": Refused("a: *x", "found undefined alias"),
    "a tag that does not fit": Refused("a: !!int x", "x is no int"),
    "binary data": Refused("a: !!binary aGk=", "!!binary is not supported"),
    "an infinite number with a tag": Refused(
        "a: !!float .inf", "got .inf; expected a finite number"
    ),
    "an open bracket": Refused(
        "a: [1", "run.yaml, line 1, column 4: no valid YAML: a bracket that is not closed"
    ),
    "a tab as indentation": Refused(
        "a:\n\t- b", "run.yaml, line 2, column 1: no valid YAML: a tab indents"
    ),
    "a control character": Refused("a: \x01", "run.yaml: no valid YAML"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_that_is_refused_is_named_with_its_place(case: str) -> None:
    text, want = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        parse_yaml(text, "run.yaml")

    assert want in str(caught.value)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1, "a": 2}', "{a: 1}"])
def test_what_is_no_strict_json_is_left_to_yaml(text: str) -> None:
    with pytest.raises(ValueError, match=r"no JSON|twice|property name"):
        parse_json(text)


LINES = {
    "spec.train": 2,
    "spec.data.transforms[1].use": 6,
    "spec.data.transforms[5]": 4,
    "spec.data.missing.field": 3,
    "other": None,
}


@pytest.mark.parametrize(("path", "line"), LINES.items(), ids=LINES)
def test_a_field_has_the_line_of_the_part_of_its_path_that_is_there(
    path: str, line: int | None
) -> None:
    text = "spec:\n  train: a:b\n  data:\n    transforms:\n    - use: c:d\n    - use: e:f\n"

    assert line_of(path, text) == line
