"""Keras as a training function meets it: `trainshed.keras.current()`.

Lives here: a run's batches for TensorFlow, a Keras model that survives, how ranks come together.
Nothing here is imported by a run of another framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.keras.keras_run import KerasRun

__all__ = ["current"]


def current() -> KerasRun:
    """Return the run this training function belongs to.

    Raises:
        RuntimeError: outside a training function of a run with framework tensorflow.
    """
    from trainshed.keras.keras_run import KerasRun
    from trainshed.worker.active_run import active

    return active(KerasRun)
