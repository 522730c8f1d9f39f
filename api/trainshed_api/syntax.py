"""Python's syntax trees, also where other threads parse at the same time."""

import ast
import gc
from typing import Literal, overload


@overload
def parse_python(source: str) -> ast.Module: ...
@overload
def parse_python(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Return the tree of a module, or of one expression, while no garbage is collected.

    Python 3.11 before 3.11.8 counts the depth of all trees in one place: what a collection runs
    in the middle of one, a traceback that is printed or another thread, may parse, too, and the
    outer one ends in SystemError (python/cpython#106905).

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ast.parse.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source, mode=mode)
    finally:
        if collecting:
            gc.enable()
