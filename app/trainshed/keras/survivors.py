"""What of a Keras run must survive: the whole model, its optimizer with it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.checkpoint.model_file import KERAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tensorflow as tf


class KerasState:
    """A compiled model, built on all ranks alike.

    Args:
        model: of Keras 2.
        strategy: of the ranks.
    """

    model_file = KERAS

    def __init__(self, model: tf.keras.Model, strategy: tf.distribute.Strategy) -> None:
        self._model = model
        self._strategy = strategy

    def weights(self) -> bytes:
        """Return the model as Keras writes it. A collective where it has running statistics."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, KERAS.name)
            self._model.save(file)
            return file.read_bytes()

    def state(self) -> dict[str, object]:
        """Return nothing: the file holds all there is."""
        return {}

    def help_gather(self) -> None:
        """Read the running statistics with rank 0, which are means over ranks."""
        self.weights()

    def load(self, model: object, state: Mapping[str, object]) -> None:  # noqa: ARG002 - empty
        """Take weights and the optimizer's state over."""
        assert isinstance(model, bytes)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, KERAS.name)
            file.write_bytes(model)
            with self._strategy.scope():
                # Else it has no slots yet that could be filled.
                self._model.optimizer.build(self._model.trainable_variables)
                self._model.load_weights(file)
