"""Which rows of files are read: `label < 5 and split == "train"`, as a tree that nothing executes.

The words are Python's: comparisons of a column with a value, `in`, `is None`, `and`, `or`, `not`. A
column whose name is no word is written `col("name")`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from trainshed_api.errors import Problem, RuleError

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
_WANT = 'comparisons such as label < 5 and split == "train"'


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


@cache
def parse_where(text: str) -> Condition:
    """Return a condition.

    Raises:
        RuleError: for what is none; names the part of it.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _wrong(text, f"({error})") from None
    return _condition(tree)


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition looks at."""
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from columns_of(part)
    elif isinstance(condition, Not):
        yield from columns_of(condition.part)
    else:
        yield condition.column


def _condition(tree: ast.expr) -> Condition:
    match tree:
        case ast.BoolOp(op=op, values=values):
            return Both(tuple(map(_condition, values)), isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(_condition(operand))
        case ast.Compare(left=left, ops=signs, comparators=others):
            sides = [left, *others]
            parts = tuple(
                _compared(one, sign, other)
                for one, sign, other in zip(sides, signs, others, strict=False)
            )
            return parts[0] if len(parts) == 1 else Both(parts, all=True)
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
        if len(values) == len(right.elts):
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
    match tree:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    return None


def _is_none(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is None


def _wrong(part: str, why: str = "") -> RuleError:
    return RuleError([Problem("where", f"`{part}`", f"{_WANT} {why}".rstrip())])
