"""Ray Data's own readers, called by name: whether one is there, and takes what it is given."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from trainshed.functions import find
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
MODULE = "ray.data"


def find_reader(use: str, options: Mapping[str, object], field: str) -> Callable[..., object]:
    """Return a reader of Ray Data's.

    Args:
        use: `ray.data:read_sql`.
        options: its keyword arguments.
        field: the spec's field of the reader to name in errors, e.g. `... .read.reader`.

    Raises:
        SpecError: when Ray Data has no such reader, or it has no such arguments, or lacks some.
    """
    import ray.data

    name = use.partition(":")[2]
    reader = getattr(ray.data, name, None)
    if not callable(reader):
        known = ", ".join(each for each in dir(ray.data) if each.startswith(("read_", "from_")))
        raise SpecError([Problem(field, name, f"one of {known}")])
    try:
        inspect.signature(reader).bind(**options)
    except TypeError as error:
        taken = ", ".join(inspect.signature(reader).parameters)
        want = f"keyword arguments of ray.data.{name}, which are {taken} ({error})"
        raise SpecError([Problem(options_field(field), None, want)]) from error
    with_functions(reader, options, options_field(field))
    return reader  # type: ignore[no-any-return]  # callable() narrows to Callable[..., Any]


def options_field(field: str) -> str:
    """Return the field of a reader's arguments by that of its name."""
    return field.removesuffix("reader") + "options"


def with_functions(
    reader: Callable[..., object], options: Mapping[str, object], field: str
) -> dict[str, object]:
    """Return the options, functions in the place of their names where the reader wants some.

    Raises:
        SpecError: when a function is not there.
    """
    wants = {
        name: "Callable" in str(parameter.annotation)
        for name, parameter in inspect.signature(reader).parameters.items()
    }
    return {
        name: find(value, f"{field}.{name}")
        if wants.get(name) and isinstance(value, str) and _FUNCTION.fullmatch(value)
        else value
        for name, value in options.items()
    }
