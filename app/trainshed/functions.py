"""Finding the functions that a TrainingRun names as `module:function`."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError
from trainshed_api.syntax import parse_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from trainshed_api.frameworks import FrameworkName

# What a function calls that makes its own batches.
SHARD = "get_dataset_shard"
# It still imports, but inside a worker of Ray Train V2 its report() and get_dataset_shard() warn
# once and return None: such a function "trains" on nothing.
REMOVED_MODULES = ("ray.air.session", "ray.air.integrations")
# Modules whose `current()` a training function calls, by framework; torch's is trainshed.current.
MODULES_OF_FRAMEWORKS: Mapping[FrameworkName, str] = {
    "xgboost": "trainshed.boosting",
    "tensorflow": "trainshed.keras",
}


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


def source_of(function: Callable[..., object]) -> str:
    """Return the text of the file that defines a function; empty if no file does."""
    try:
        return Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_text("utf-8")
    except (OSError, TypeError):
        return ""


def find_for_rows(use: str, init: Mapping[str, object], field: str) -> None:
    """Look whether a transform or an augmentation can be imported, and made where it is a class.

    Args:
        use: `module:name`.
        init: keyword arguments of its constructor.
        field: the spec's field of it, without `.use`.

    Raises:
        SpecError: when it cannot, or a constructor takes other arguments.
    """
    found = find(use, f"{field}.use")
    place = f"{field}.init"
    if not inspect.isclass(found):
        if init:
            got = ", ".join(init)
            expected = f"no value, as {use} is no class; arguments of a function are its options"
            raise SpecError([Problem(place, got, expected)])
        return
    try:
        inspect.signature(found).bind(**init)
    except TypeError as error:
        taken = ", ".join(inspect.signature(found).parameters) or "none"
        expected = f"keyword arguments of {use}, which are {taken} ({error})"
        raise SpecError([Problem(place, ", ".join(init) or "none", expected)]) from error


def find_training_function(use: str, field: str) -> Callable[..., object]:
    """Import a training function of Ray's own shape: no argument, or the config.

    Raises:
        SpecError: also when it needs other arguments or still uses Ray's removed session.
    """
    function = find(use, field)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        expected = "a plain function: calling one that is async or yields does not run it"
        raise SpecError([Problem(field, use, expected)])
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(needed) > 1 or any(p.kind == p.KEYWORD_ONLY for p in needed):
        names = ", ".join(parameter.name for parameter in needed)
        expected = "a function with no argument or one (the config)"
        raise SpecError([Problem(field, f"{use}({names})", expected)])
    _refuse_removed_session(use, function, field)
    return function


def takes_config(function: Callable[..., object]) -> bool:
    """Say whether a training function wants the config."""
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind not in named for parameter in parameters)


def takes_shards(use: str) -> bool:
    """Say whether the file of a training function names `ray.train.get_dataset_shard`."""
    return any(name.rpartition(".")[2] == SHARD for name in _lines_by_name(find(use, "spec.train")))


def check_framework_of(use: str, framework: FrameworkName) -> None:
    """Refuse a framework other than the one whose run the file of a training function asks for.

    Raises:
        SpecError: naming the framework of the function.
    """
    names = _lines_by_name(find(use, "spec.train"))
    called = [
        other
        for other, module in MODULES_OF_FRAMEWORKS.items()
        if any(f"{name}.".startswith(f"{module}.") for name in names)
    ]
    # A file of several functions does not tell which of them is for which framework.
    has_others = any(f"{name}.".startswith(("ray.", "trainshed.current.")) for name in names)
    if called and framework not in called and not has_others:
        expected = f"{called[0]}, as {use} uses {MODULES_OF_FRAMEWORKS[called[0]]}"
        raise SpecError([Problem("spec.framework", framework, expected)])


def check_config(use: str, config: Mapping[str, object]) -> None:
    """Let the module of a training function refuse the config before anything starts.

    A module may have a function `check_config(config)` beside its training function; it raises
    ValueError, or SpecError where it can say which field is wrong.

    Args:
        use: the training function.
        config: of the spec.

    Raises:
        SpecError: with what it finds.
    """
    check = getattr(_module(use, "spec.train"), "check_config", None)
    if check is None:
        return
    try:
        check(dict(config))
    except SpecError:
        raise
    except ValueError as error:
        expected = str(error) or f"another one: {use} refuses it"
        raise SpecError([Problem("spec.config", None, expected)]) from error


def check_rows(
    use: str, config: Mapping[str, object], dataset: str, columns: Mapping[str, NDArray[np.generic]]
) -> None:
    """Let the module of a training function refuse the first rows of a dataset.

    A module may have a function `check_rows(config, columns)` beside its training function; it
    raises ValueError.

    Args:
        use: the training function.
        config: of the spec.
        dataset: the name of the dataset.
        columns: its first rows after the transforms, by column.

    Raises:
        SpecError: with what it finds.
    """
    check = getattr(_module(use, "spec.train"), "check_rows", None)
    if check is None:
        return
    try:
        check(dict(config), columns)
    except SpecError:
        raise
    except ValueError as error:
        field = f"spec.data.datasets.{dataset}"
        raise SpecError([Problem(field, None, str(error))]) from error


def _module(use: str, field: str) -> ModuleType:
    name = use.partition(":")[0]
    here = str(Path.cwd())
    if here not in sys.path:  # a user's own module lies where the command is typed
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise _not_imported(use, field, error) from error
        expected = (
            f"a module in {here} or an installed one ({error}): set spec.code.workingDir to the "
            "folder of your code, relative to the run's file"
        )
        raise SpecError([Problem(field, use, expected)]) from error
    except (Exception, SystemExit) as error:  # a script without a main guard may read arguments
        raise _not_imported(use, field, error) from error


def _not_imported(use: str, field: str, error: BaseException) -> SpecError:
    cause = f"{type(error).__name__}: {error}{_place(error)}"
    return SpecError([Problem(field, use, f"a module that imports ({cause})")])


def _place(error: BaseException) -> str:
    """Return the file and line that raised it, unless that was the import itself."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = (
        last.filename.startswith("<frozen importlib") or "importlib" in Path(last.filename).parts
    )
    return "" if inside else f", {last.filename}:{last.lineno}"


def _is_own(value: object, module: ModuleType) -> bool:
    if not inspect.isfunction(value):
        return False
    # A package may import what it exports from its modules.
    return value.__module__ == module.__name__ or value.__module__.startswith(f"{module.__name__}.")


def _lines_by_name(function: Callable[..., object]) -> dict[str, int]:
    """Return what the file of a function imports or reaches through dots, each with a line.

    Such as `ray.air.session`.
    """
    try:
        tree = parse_python(source_of(function))
    except SyntaxError:
        return {}
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                lines |= dict.fromkeys((alias.name for alias in names), node.lineno)
            case ast.ImportFrom(module=str(module), names=names):
                lines |= dict.fromkeys((f"{module}.{alias.name}" for alias in names), node.lineno)
            case ast.Attribute():
                lines[ast.unparse(node)] = node.lineno
    return lines


def _refuse_removed_session(use: str, function: Callable[..., object], field: str) -> None:
    lines = _lines_by_name(function)
    if "ray.air" in lines:  # as `from ray import air` has it
        lines |= {f"ray.{name}": line for name, line in lines.items() if name.startswith("air.")}
    for name, line in lines.items():
        removed = next((module for module in REMOVED_MODULES if name.startswith(module)), None)
        if removed:
            expected = (
                f"a module without {removed} (line {line}): Ray removed it; use ray.train.report, "
                "ray.train.get_dataset_shard and ray.train.get_context"
            )
            raise SpecError([Problem(field, use, expected)])
