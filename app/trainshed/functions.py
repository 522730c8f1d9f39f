"""Finding the functions that a TrainingRun names as `module:function`."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# It still imports, but inside a worker of Ray Train V2 its report() and get_dataset_shard() warn
# once and return None: such a function "trains" on nothing.
REMOVED_MODULES = ("ray.air.session", "ray.air.integrations")


def find(use: str, field: str) -> Callable[..., object]:
    """Import a function or class by its `module:name`.

    Args:
        use: for instance `trainshed.transforms:decode_image`.
        field: the spec's field to name in errors.

    Raises:
        SpecError: when the module or the name cannot be imported, or is not callable.
    """
    module = _module(use, field)
    name = use.partition(":")[2]
    found = getattr(module, name, None)
    if found is None:
        names = (
            ", ".join(sorted(n for n, v in vars(module).items() if _is_own(v, module))) or "none"
        )
        raise SpecError([Problem(field, use, f"a name in {module.__name__}; it has: {names}")])
    if not callable(found):
        raise SpecError([Problem(field, use, f"a function, not a {type(found).__name__}")])
    return found  # type: ignore[no-any-return]  # callable() narrows to Callable[..., Any]


def find_training_function(use: str, field: str) -> Callable[..., object]:
    """Import a training function of Ray's own shape: no argument, or the config.

    Raises:
        SpecError: also when it needs more than one argument or still uses Ray's removed session.
    """
    function = find(use, field)
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        got = f"{use}({', '.join(parameter.name for parameter in needed)})"
        want = "a function that needs no argument or one (the config)"
        raise SpecError([Problem(field, got, want)])
    _refuse_removed_session(use, function, field)
    return function


def takes_config(function: Callable[..., object]) -> bool:
    """Say whether a training function wants the config."""
    return any(
        parameter.kind is not parameter.KEYWORD_ONLY and parameter.kind is not parameter.VAR_KEYWORD
        for parameter in inspect.signature(function).parameters.values()
    )


def _module(use: str, field: str) -> ModuleType:
    name = use.partition(":")[0]
    here = str(Path.cwd())
    if here not in sys.path:  # a user's own module lies where the command is typed
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    # A script that ends the process when it is imported is no module either.
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"
        raise SpecError([Problem(field, use, f"a module that imports ({cause})")]) from error


def _is_own(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _refuse_removed_session(use: str, function: Callable[..., object], field: str) -> None:
    try:
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_text("utf-8")
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):  # built elsewhere than in a file: nothing to check
        return
    for node in ast.walk(tree):
        for name, line in _names(node):
            if name.startswith(REMOVED_MODULES):
                want = (
                    f"a module without {name} (line {line}): Ray removed it; use "
                    "ray.train.report, ray.train.get_dataset_shard and ray.train.get_context"
                )
                raise SpecError([Problem(field, use, want)])


def _names(node: ast.AST) -> list[tuple[str, int]]:
    """Return the dotted names that a node imports or reaches by attributes, with their line."""
    if isinstance(node, ast.Import):
        return [(alias.name, node.lineno) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [(ast.unparse(node), node.lineno)]
    return []
