"""Finds the functions that a checkpoint names for prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.sources.formats.optional_packages import is_importable
from trainshed.functions import find
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = "RUN"
_CALL = "run.describe_model(builder=..., predict=..., config=...)"


def find_hook(use: str | None, name: str) -> Callable[..., object]:
    """Return a function that a checkpoint names.

    Args:
        use: `module:name`; None if the checkpoint names none.
        name: its parameter of `describe_model`.

    Raises:
        SpecError: if there is none, or it cannot be imported here.
    """
    if use is None:
        expected = (
            f"a checkpoint that names the function {name}. Call {_CALL} in the training function, "
            "and train for one more epoch to write a new checkpoint"
        )
        raise SpecError([Problem(RUN, f"a checkpoint without {name}", expected)])
    module = use.partition(":")[0]
    if not is_importable(module):
        expected = f"a checkpoint whose module {module} can be imported. Set --code to its folder"
        raise SpecError([Problem(RUN, f"a checkpoint that names {use}", expected)])
    return find(use, RUN)
