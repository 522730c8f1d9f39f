"""Keras's steps as the run's: a callback counts them, and hears of a stop between two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed.worker.loop import TrainingLoop


class StepCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]  # TensorFlow is untyped
    """Ends a step of the run after each of Keras's.

    Args:
        loop: of this worker.
        log: shows a number as progress.
    """

    # Keras reads no number of a device for us before we ask.
    _supports_tf_logs = True

    def __init__(self, loop: TrainingLoop, log: Callable[[str, float], None]) -> None:
        super().__init__()
        self._loop = loop
        self._log = log
        # Returns the rows of all ranks in a step, by its index in the rest of the epoch.
        self.rows: Callable[[int], int]

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Count the step. A collective now and then.

        Raises:
            StopTraining: when the run was asked to stop.
            NonFiniteLossError: when the loss was no finite number.
        """
        for name, value in (logs or {}).items():
            number = float(value)  # type: ignore[arg-type]  # a tensor of one number
            if name == "loss":
                self._loop.watch_loss(torch.tensor(number))
            if math.isfinite(number):
                self._log(name, number)
        self._loop.end_step(self.rows(batch))
