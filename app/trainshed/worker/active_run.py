"""The run of this process, for code that does not get it as an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from trainshed.worker.base_run import BaseRun

Kind = TypeVar("Kind", bound="BaseRun")

_active: BaseRun | None = None


def active(kind: type[Kind]) -> Kind:
    """Return the run of this worker.

    Args:
        kind: of the framework that the caller trains with.

    Raises:
        RuntimeError: outside a training function that Trainshed started, or in that of another
            framework.
    """
    if _active is None:
        raise RuntimeError(
            f"{kind.asked_for_by} works inside a training function that `trainshed run` started"
        )
    if not isinstance(_active, kind):
        raise RuntimeError(
            f"{kind.asked_for_by} is for spec.framework {kind.framework}; this run's is "
            f"{_active.framework}: set it, or use {_active.asked_for_by}"
        )
    _active.plain_function.asked_for_run = True
    return _active


def running() -> BaseRun | None:
    """Return the run of this worker, if there is one, for code beside its function."""
    return _active


def activate(run: BaseRun | None) -> None:
    """Make a run the one that `trainshed.current()` returns in this process."""
    global _active  # noqa: PLW0603 - one worker process trains one run
    _active = run
