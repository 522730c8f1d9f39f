"""Gradient boosting as a training function meets it: `trainshed.boosting.current()`.

Contains rows as XGBoost's matrices, rounds that survive losses, and how ranks join. Pure:
early_stopping, matrix_columns. Runs of other frameworks import nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.boosting.boosting_run import BoostingRun

__all__ = ["current"]


def current() -> BoostingRun:
    """Return the run this training function belongs to.

    Raises:
        RuntimeError: outside a training function of a run with framework xgboost.
    """
    from trainshed.boosting.boosting_run import BoostingRun
    from trainshed.worker.active_run import active

    return active(BoostingRun)
