"""Which run this process trains, for who is not handed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.worker.current import Run

_active: Run | None = None


def active() -> Run:
    """Return the run of this worker.

    Raises:
        RuntimeError: outside a training function that Trainshed started.
    """
    if _active is None:
        raise RuntimeError(
            "trainshed.current() works inside a training function that `trainshed run` started"
        )
    _active.own_loop.asked_for_run = True
    return _active


def running() -> Run | None:
    """Return the run of this worker, if there is one, for what works beside its function."""
    return _active


def activate(run: Run | None) -> None:
    """Make a run the one that `trainshed.current()` returns in this process."""
    global _active  # noqa: PLW0603 - one worker process trains one run
    _active = run
