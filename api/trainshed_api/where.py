"""Which rows of files are read: `label < 5 and split == "train"`, as a tree that nothing executes.

The syntax is Python's: comparisons of columns, values and what `len`, `+`, `-`, `*` and `/` make of
them, `in`, `is None`, `like` and `match` on a column, `and`, `or`, `not`. A column whose name is no
identifier is written `col("name")`.
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


class Unquoted(str):
    """A constant as it is written, which is a number beside a column of numbers."""

    __slots__ = ()


Sign = Literal["==", "!=", "<", "<=", ">", ">="]
Operator = Literal["+", "-", "*", "/"]
Pattern = Literal["like", "match"]

_SIGNS: dict[type[ast.cmpop], Sign] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_OPERATORS: dict[type[ast.operator], Operator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_TURNED: dict[Sign, Sign] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXPECTED = 'comparisons such as label < 5 and split == "train"'
# Libraries evaluate conditions recursively, and end the process if one is nested too deeply.
MOST_CHARACTERS = 4096
MOST_DEPTH = 50
# Of what is wrong, so much is shown.
_SHOWN = 80
_INT64, _UINT64 = 1 << 63, 1 << 64


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
class Matched:
    """A column of texts that match a pattern: one of SQL's `like`, or a regular expression."""

    column: str
    function: Pattern
    pattern: str


@dataclass(frozen=True)
class ColumnTerm:
    """The value of a column, or its length: of a text, bytes or a list."""

    column: str
    is_length: bool = False


@dataclass(frozen=True)
class ComputedTerm:
    """A number that is computed of two terms."""

    left: Term
    operator: Operator
    right: Term


@dataclass(frozen=True)
class Related:
    """Two terms beside each other, of which at least one has a column."""

    left: Term
    sign: Sign
    right: Term


@dataclass(frozen=True)
class Both:
    """All of several conditions, or any of them."""

    parts: tuple[Condition, ...]
    all: bool


@dataclass(frozen=True)
class Not:
    """What does not meet a condition."""

    part: Condition


Term = ColumnTerm | ComputedTerm | Value
Simple = Compared | Among | Missing | Matched | Related
Condition = Simple | Both | Not


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


def simple_parts_of(condition: Condition) -> Iterator[Simple]:
    """Yield the conditions without `and`, `or` and `not` that a condition is made of."""
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from simple_parts_of(part)
    elif isinstance(condition, Not):
        yield from simple_parts_of(condition.part)
    else:
        yield condition


def values_of(part: Compared | Among) -> tuple[Value, ...]:
    """Return the values that a column is compared with."""
    return (part.value,) if isinstance(part, Compared) else part.values


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition looks at."""
    for part in simple_parts_of(condition):
        if isinstance(part, Related):
            yield from _columns_of_term(part.left)
            yield from _columns_of_term(part.right)
        else:
            yield part.column


def _columns_of_term(term: Term) -> Iterator[str]:
    if isinstance(term, ColumnTerm):
        yield term.column
    elif isinstance(term, ComputedTerm):
        yield from _columns_of_term(term.left)
        yield from _columns_of_term(term.right)


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
                _compared(one, sign, other, depth)
                for one, sign, other in zip(sides, signs, others, strict=False)
            )
            return compared[0] if len(compared) == 1 else Both(compared, all=True)
        case ast.Call(
            func=ast.Name(id="like" | "match" as function),
            args=[of, ast.Constant(value=str(pattern))],
            keywords=[],
        ) if (name := _column(of)) is not None:
            return Matched(name, function, pattern)
    raise _wrong(ast.unparse(tree))


def _compared(left: ast.expr, sign: ast.cmpop, right: ast.expr, depth: int) -> Condition:
    name = _column(left)
    if name is None:
        turned, value = _column(right), _value(left)
        if turned is None or value is None or type(sign) not in _SIGNS:
            return _related(left, sign, right, depth)
        return Compared(turned, _TURNED[_SIGNS[type(sign)]], value)
    if isinstance(sign, ast.Is | ast.IsNot) and _is_none(right):
        return Missing(name) if isinstance(sign, ast.Is) else Not(Missing(name))
    if isinstance(sign, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple):
        values = tuple(value for each in right.elts if (value := _value(each)) is not None)
        if len(values) == len(right.elts) and _are_alike(values):
            return Among(name, values) if isinstance(sign, ast.In) else Not(Among(name, values))
    value = _value(right)
    if value is None or type(sign) not in _SIGNS:
        return _related(left, sign, right, depth)
    return Compared(name, _SIGNS[type(sign)], value)


def _related(left: ast.expr, sign: ast.cmpop, right: ast.expr, depth: int) -> Related:
    one, other = _term(left, depth), _term(right, depth)
    if one is None or other is None or type(sign) not in _SIGNS:
        raise _wrong(f"{ast.unparse(left)} beside {ast.unparse(right)}")
    related = Related(one, _SIGNS[type(sign)], other)
    if next(columns_of(related), None) is None:
        raise _wrong(f"{ast.unparse(left)} beside {ast.unparse(right)}", "with a column")
    return related


def _term(tree: ast.expr, depth: int) -> Term | None:
    """Return a column, a value or what is computed of them; None for another expression."""
    if (name := _column(tree)) is not None:
        return ColumnTerm(name)
    if not depth:
        return None
    match tree:
        case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]):
            name = _column(of)
            return None if name is None else ColumnTerm(name, is_length=True)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            one, other = _term(left, depth - 1), _term(right, depth - 1)
            if one is None or other is None:
                return None
            return ComputedTerm(one, _OPERATORS[type(operator)], other)
    return _value(tree)


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
        case ast.Constant(value=int(value)) if value < _UINT64:
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
