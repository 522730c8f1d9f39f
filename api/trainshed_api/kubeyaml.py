"""YAML as kubectl reads it: the same text means here what it means to `kubectl apply`.

kubectl turns YAML into JSON with go-yaml v2, which follows neither YAML 1.1 nor 1.2: `1e-3` is a
number, `1:30` a text, `on` true, `014` twelve. PyYAML only parses and composes here; what a scalar
means is decided below, after `resolve` in resolve.go of go.yaml.in/yaml/v2 (2.4.2).

Documents that are nested too deep are refused: recursive readers would exhaust Python's stack.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from pydantic import JsonValue

# Far above what anybody writes, far below where Python and pydantic give up.
MOST_LEVELS = 100
EXPECTED_DEPTH = f"at most {MOST_LEVELS} maps and lists inside each other"
_NAMED_LEVELS = 2

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_NOT_FINITE = frozenset(
    sign + dot
    for dot in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
    for sign in ("", "+", "-")
    if not (sign and "n" in dot[1].lower())
)
_BASED = re.compile(r"([+-]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))")
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])_(?=[0-9])")
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1

# What PyYAML reports, and what mostly is the cause.
_CAUSES = {
    r"'\t' that cannot start": "a tab indents this line. Write spaces. ",
    "that cannot start any token": "a value that begins with this sign has to be in quotes. ",
    "mapping values are not allowed": "a colon in a value, or a line that is indented too deep. "
    "Write the value in quotes, or indent the line as its siblings. ",
    "could not find expected ':'": "a key without a colon. Write `key: value`. ",
    "while scanning a quoted scalar": "a quote is not closed. Close it. ",
    "while parsing a flow": "a bracket that is not closed, or a comma that is missing. Add it. ",
    "while parsing a block": "the indentation is not that of the lines before. Indent lines of "
    "one map or list alike. ",
    "undefined alias": "a value that begins with * has to be in quotes. ",
}

_PLAIN = "plain"
_TAG = "tag:yaml.org,2002:"


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to the node graph, in which a plain scalar has the tag `plain`."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def resolve(self, kind: type[Node], value: str, implicit: tuple[bool, bool]) -> str:  # noqa: ARG002
        """Return the implicit tag of a node."""
        if kind is ScalarNode:
            return _PLAIN if implicit[0] else _TAG + "str"
        return _TAG + ("seq" if kind is SequenceNode else "map")


def parse_yaml(text: str, source: str) -> list[JsonValue]:
    """Return the documents of a text as JSON values, empty documents left out.

    Raises SpecError, with line and column, for what kubectl would refuse.
    """
    try:
        loader = _Loader(text)
        documents = []
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                documents.append(_convert(node, source, ()))
    except yaml.MarkedYAMLError as error:
        reason = " ".join(part for part in (error.context, error.problem) if part)
        # A key, quote or bracket is wrong where it begins, an indentation where it ends.
        begins, ends = error.context_mark, error.problem_mark
        place = _place(source, ends if "block" in reason or begins is None else begins)
        cause = next((words for part, words in _CAUSES.items() if part in reason), "")
        said = f"no valid YAML: {cause}Reported: {reason}"
        raise SpecError([Problem(place, None, said)], source) from None
    except yaml.YAMLError as error:
        first_line = str(error).partition("\n")[0]
        raise SpecError([Problem(source, None, f"no valid YAML: {first_line}")], source) from None
    except RecursionError:
        raise SpecError(
            [Problem(source, None, f"nested too deep; expected {EXPECTED_DEPTH}")], source
        ) from None
    return [document for document in documents if document is not None]


def line_of(path: str, text: str) -> int | None:
    """Return the line of a field in a valid document, or of the part of its path that exists.

    path: as in error texts, `spec.data.datasets.train.transforms[0].use`.
    """
    node, line = _Loader(text).get_single_node(), None
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(node, MappingNode):
            pairs = [(key, value) for key, value in node.value if key.value == step]
            if not pairs:
                break
            line, node = pairs[0][0].start_mark.line + 1, pairs[0][1]
        elif isinstance(node, SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
        else:
            break
    return line


def parse_json(text: str) -> JsonValue:
    """Return the value of a JSON text.

    Raises ValueError for any other, for a key set twice, and for one that is nested too deep.
    """
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_refuse_twice, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError(f"nested too deep; expected {EXPECTED_DEPTH}") from None
    return value


def _refuse_twice(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is set twice")
    return dict(pairs)


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


def parse_scalar(text: str) -> JsonValue:
    """Return what a plain scalar means. Raises ValueError for what JSON cannot carry."""
    if text in _NOT_FINITE:
        raise ValueError(f"got {text}; expected a finite number, JSON has no other")
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _NULL:
        return None
    number = _parse_number(text)
    return text if number is None else number


def _parse_number(text: str) -> int | float | None:
    if not text or text[0] not in "+-.0123456789":
        return None
    # After a leading dot an underscore must stand between digits, else it may stand anywhere.
    plain = _BETWEEN_DIGITS.sub("", text) if text[0] == "." else text.replace("_", "")
    based, integer = _BASED.fullmatch(plain), None
    if based:
        sign, hexadecimal, binary, octal = based.groups()
        digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8)) if d)
        integer = int(sign + digits, base)
    elif _DECIMAL.fullmatch(plain):
        integer = int(plain)
    # An unsigned number is tried last and takes no sign.
    most = 2**63 - 1 if plain[0] in "+-" else _UINT64_MAX
    if integer is not None and _INT64_MIN <= integer <= most:
        return integer
    if _FLOAT.fullmatch(plain) and math.isfinite(number := float(plain)):
        return number
    return None


def _convert(node: Node, source: str, parents: tuple[Node, ...]) -> JsonValue:
    if any(node is parent for parent in parents):
        raise _problem(node, source, "an anchor that contains itself")
    if isinstance(node, ScalarNode):
        return _convert_scalar(node, source)
    if isinstance(node, SequenceNode):
        return [_convert(item, source, (*parents, node)) for item in node.value]
    if isinstance(node, MappingNode):
        return _convert_mapping(node, source, parents)
    raise AssertionError(f"PyYAML has no other nodes, got {node!r}")


def _convert_scalar(node: ScalarNode, source: str) -> JsonValue:
    kind = node.tag.removeprefix(_TAG)
    if kind == _PLAIN:
        try:
            return parse_scalar(node.value)
        except ValueError as error:
            raise _problem(node, source, str(error)) from None
    if kind == "binary":
        raise _problem(node, source, "!!binary is not supported, write the base64 text")
    if kind not in ("bool", "int", "float", "null"):
        return str(node.value)
    try:
        value = parse_scalar(node.value)
    except ValueError as error:
        raise _problem(node, source, str(error)) from None
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind != {bool: "bool", int: "int", float: "float", type(None): "null"}.get(type(value)):
        raise _problem(node, source, f"{node.value} is no {kind}")
    return value


def _convert_mapping(
    node: MappingNode, source: str, parents: tuple[Node, ...]
) -> dict[str, JsonValue]:
    """Return the mapping. Merges act where they stand, as in go-yaml v2: the later wins."""
    result: dict[str, JsonValue] = {}
    written: set[str] = set()
    for key_node, value_node in node.value:
        if isinstance(key_node, ScalarNode) and key_node.tag == _PLAIN and key_node.value == "<<":
            result.update(_convert_merge(value_node, source, (*parents, node)))
            continue
        key = _convert_key(key_node, source)
        if key in written:
            raise _problem(key_node, source, f'"{key}" is set twice')
        written.add(key)
        result[key] = _convert(value_node, source, (*parents, node))
    return result


def _convert_key(node: Node, source: str) -> str:
    key = _convert_scalar(node, source) if isinstance(node, ScalarNode) else None
    if isinstance(key, bool):
        if node.value.lower() not in {"true", "false"}:
            meant = f"the key {node.value} is the truth value {str(key).lower()} in YAML 1.1"
            raise _problem(node, source, f'{meant}. Write it in quotes: "{node.value}"')
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if not isinstance(key, str):
        raise _problem(node, source, "a key that is no text; put it in quotes")
    return key


def _convert_merge(node: Node, source: str, parents: tuple[Node, ...]) -> dict[str, JsonValue]:
    parts = node.value if isinstance(node, SequenceNode) else [node]
    if not all(isinstance(part, MappingNode) for part in parts):
        raise _problem(node, source, "<< merges a map or a list of maps")
    merged: dict[str, JsonValue] = {}
    for part in reversed(parts):  # the first of a list wins
        merged.update(_convert_mapping(part, source, parents))
    return merged


def _problem(node: Node, source: str, expected: str) -> SpecError:
    return SpecError([Problem(_place(source, node.start_mark), None, expected)], source)


def _place(source: str, mark: yaml.Mark | None) -> str:
    if mark is None:
        return source
    return f"{source}, line {mark.line + 1}, column {mark.column + 1}"


def refuse_deep(document: JsonValue, source: str) -> None:
    """Raise SpecError for a document with more levels than that, level by level."""
    level = [("", document)]
    for depth in range(MOST_LEVELS + 1):
        inside: list[tuple[str, JsonValue]] = []
        for place, value in level:
            if isinstance(value, dict):
                for key, item in value.items():
                    named = f"{place}.{key}".lstrip(".") if depth < _NAMED_LEVELS else place
                    inside.append((named, item))
            elif isinstance(value, list):
                inside += [(place, item) for item in value]
        if not inside:
            return
        level = inside
    raise SpecError(
        [Problem(level[0][0] or source, None, f"nested too deep; expected {EXPECTED_DEPTH}")],
        source,
    )
