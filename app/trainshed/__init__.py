"""The run and its command line: Ray Data feeds Ray Train feeds PyTorch, XGBoost or TensorFlow.

Lives here: everything that runs where the training runs. Never here: kopf, the Kubernetes client.
Inside a training function, `trainshed.current()` is the whole interface for PyTorch,
`trainshed.boosting.current()` for XGBoost and `trainshed.keras.current()` for TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.worker.current import Run

__version__ = "0.1.0"
__all__ = ["current"]


def current() -> Run:
    """Return the run this training function belongs to.

    Raises:
        RuntimeError: outside a training function that Trainshed started.
    """
    from trainshed.worker.active_run import active
    from trainshed.worker.current import Run

    return active(Run)
