"""Which rows of files are read: `label < 5 and split == "train"`, as a tree that nothing executes.

The words are Python's: comparisons of a column with a value, `in`, `is None`, `and`, `or`, `not`. A
column whose name is no word is written `col("name")`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from trainshed_api.errors import Problem, RuleError
from trainshed_api.syntax import parse_python

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = bool | int | float | str
Sign = Literal["==", "!=", "<", "<=", ">", ">="]

_SIGNS: dict[type[ast.cmpop], Sign] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TURNED: dict[Sign, Sign] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXPECTED = 'comparisons such as label < 5 and split == "train"'
# Libraries evaluate conditions recursively, and end the process if one is nested too deeply.
MOST_CHARACTERS = 4096
MOST_DEPTH = 50
# Of what is wrong, so much is shown.
_SHOWN = 80
_INT64 = 1 << 63


@dataclass(frozen=True)
class Compared:
    """A column beside a value; no row without a value there is meant."""

    column: str
    sign: Sign
    value: Value


@dataclass(frozen=True)
class Among:
    """A column whose value is one of several."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Missing:
    """A column without a value."""

    column: str


@dataclass(frozen=True)
class Both:
    """All of several conditions, or any of them."""

    parts: tuple[Condition, ...]
    all: bool


@dataclass(frozen=True)
class Not:
    """What does not meet a condition."""

    part: Condition


Condition = Compared | Among | Missing | Both | Not


@lru_cache(maxsize=64)
def parse_where(text: str) -> Condition:
    """Return a condition.

    Raises:
        RuleError: for what is none, or is too long or too deep; names the part of it.
    """
    if len(text) > MOST_CHARACTERS:
        raise _wrong(text, f"of at most {MOST_CHARACTERS} characters")
    try:
        tree = parse_python(text.strip(), "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _wrong(text, f"({error})") from None
    return _condition(tree, MOST_DEPTH)


def simple_parts_of(condition: Condition) -> Iterator[Compared | Among | Missing]:
    """Yield the conditions on one column that a condition is made of."""
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from simple_parts_of(part)
    elif isinstance(condition, Not):
        yield from simple_parts_of(condition.part)
    else:
        yield condition


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition looks at."""
    return (part.column for part in simple_parts_of(condition))


def _condition(tree: ast.expr, depth: int) -> Condition:
    """Return the condition of a tree that may be so deep."""
    if not depth:
        raise RuleError(
            [Problem("where", f"more than {MOST_DEPTH} levels", f"{_EXPECTED}, less deeply nested")]
        )
    match tree:
        case ast.BoolOp(op=op, values=values):
            parts = tuple(_condition(value, depth - 1) for value in values)
            return Both(parts, isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(_condition(operand, depth - 1))
        case ast.Compare(left=left, ops=signs, comparators=others):
            sides = [left, *others]
            compared = tuple(
                _compared(one, sign, other)
                for one, sign, other in zip(sides, signs, others, strict=False)
            )
            return compared[0] if len(compared) == 1 else Both(compared, all=True)
    raise _wrong(ast.unparse(tree))


def _compared(left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Condition:
    name = _column(left)
    if name is None:
        turned, value = _column(right), _value(left)
        if turned is None or value is None or type(sign) not in _SIGNS:
            raise _wrong(f"{ast.unparse(left)} beside {ast.unparse(right)}")
        return Compared(turned, _TURNED[_SIGNS[type(sign)]], value)
    if isinstance(sign, ast.Is | ast.IsNot) and _is_none(right):
        return Missing(name) if isinstance(sign, ast.Is) else Not(Missing(name))
    if isinstance(sign, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple):
        values = tuple(value for each in right.elts if (value := _value(each)) is not None)
        if len(values) == len(right.elts) and _are_alike(values):
            return Among(name, values) if isinstance(sign, ast.In) else Not(Among(name, values))
    value = _value(right)
    if value is None or type(sign) not in _SIGNS:
        raise _wrong(f"{name} beside {ast.unparse(right)}")
    return Compared(name, _SIGNS[type(sign)], value)


def _column(tree: ast.expr) -> str | None:
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str(name))], keywords=[]):
            return name
    return None


def _value(tree: ast.expr) -> Value | None:
    """Return a value that a column may have; no column has integers of more than 64 bits."""
    match tree:
        case ast.Constant(value=bool() | float() | str() as value):
            return value
        case ast.Constant(value=int(value)) if value < _INT64:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(value))):
            return -value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))) if value <= _INT64:
            return -value
    return None


def _are_alike(values: tuple[Value, ...]) -> bool:
    """Say whether there are values, and a column may have each of them."""
    kinds = {"number" if type(value) in (int, float) else type(value) for value in values}
    return len(kinds) == 1


def _is_none(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is None


def _wrong(part: str, why: str = "") -> RuleError:
    shown = part if len(part) <= _SHOWN else f"{part[:_SHOWN]}..."
    return RuleError([Problem("where", f"`{shown}`", f"{_EXPECTED} {why}".rstrip())])
