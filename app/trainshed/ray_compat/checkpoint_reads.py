"""Notes whether a training function asks Ray Train for its checkpoints.

Public functions of `ray.train` ask one object of each worker's process, private to Ray 2.60, the
pinned release; tests/ray_compat holds it.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ray.train.v2._internal.execution.train_fn_utils import get_train_fn_utils

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class CheckpointReads:
    """Whether the function of this worker was given a checkpoint since this was made."""

    def __init__(self) -> None:
        self.any = False
        asked = get_train_fn_utils()
        for name in ("get_checkpoint", "get_all_reported_checkpoints"):
            setattr(asked, name, self._noting(getattr(asked, name)))

    def _noting(self, read: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        @wraps(read)
        def noted(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            self.any = True
            return read(*args, **kwargs)

        return noted
