"""Predictions of a Keras model."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import tensorflow as tf

from trainshed.predict.hooks import find_hook
from trainshed.predict.predictor import as_columns, call_hook
from trainshed.predict.torch_model import number_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.checkpoint.manifest import Prediction
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sources.column_arrays import Columns


class KerasPredictor:
    """The model of a checkpoint, without its optimizer.

    Args:
        file: of the model.
        about: the description of the model.
        plan: of the dataset that trained: types of columns.
        device: of the model; None for the GPU if there is one.
    """

    formats = ("keras",)

    def __init__(
        self, file: Path, about: Prediction, plan: DatasetPlan, device: str | None
    ) -> None:
        self._predict = find_hook(about.predict, "predict")
        self._about = about
        self._plan = plan
        self._device = device
        with self._placed():
            self.model = tf.keras.models.load_model(file, compile=False)

    def predict(self, columns: Columns) -> object:
        """Return what the run's function `predict` returns for the arrays of these rows."""
        return self._predicted(self.model, columns)

    def export(self, columns: Columns, form: str, file: Path) -> tuple[Columns, Columns]:  # noqa: ARG002 - the only one
        """Write the model as a file; return the predictions, and those of the file."""
        self.model.save(file, save_format="keras_v3")
        models = (self.model, tf.keras.models.load_model(file, compile=False))
        before, after = (
            as_columns(self._predicted(each, columns), columns, self._about) for each in models
        )
        return before, after

    def _predicted(self, model: tf.keras.Model, columns: Columns) -> object:
        tensors = number_tensors(self._plan, columns)
        batch = {name: tensor.numpy() for name, tensor in tensors.items()}
        with self._placed():
            return call_hook(self._predict, model, batch, self._about)

    def _placed(self) -> tf.device | nullcontext[None]:
        return tf.device(self._device) if self._device else nullcontext()
