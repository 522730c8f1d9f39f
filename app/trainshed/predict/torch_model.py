"""Predictions of a PyTorch model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from trainshed.checkpoint.model_file import TORCH
from trainshed.data.loader.batch_structure import take_apart
from trainshed.data.loader.batches import to_tensors
from trainshed.data.sources.collate import collate
from trainshed.data.sources.column_arrays import num_rows
from trainshed.functions import takes_config
from trainshed.predict.hooks import find_hook
from trainshed.predict.predictor import call_hook
from trainshed.predict.torch_export import FORMATS, inputs_of, outputs, write_module

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainshed.checkpoint.manifest import Prediction
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sources.column_arrays import Columns

_NUMBERS = "biufc"


class TorchPredictor:
    """A module with the weights of a checkpoint, in evaluation mode.

    Args:
        file: of the weights.
        about: the description of the model.
        plan: of the dataset that trained: types of columns, and its `feed.collate`.
        device: of the model; None for the GPU if there is one.
    """

    formats = FORMATS

    def __init__(
        self, file: Path, about: Prediction, plan: DatasetPlan, device: str | None
    ) -> None:
        build = find_hook(about.builder, "builder")
        self._predict = find_hook(about.predict, "predict")
        self._about = about
        self._plan = plan
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        with file.open("rb") as opened:
            weights = TORCH.load(opened)
        model = build(dict(about.config)) if takes_config(build) else build()
        self.model = cast("torch.nn.Module", model)
        self.model.load_state_dict(cast("Mapping[str, torch.Tensor]", weights))
        self.model.to(self._device).eval()

    def predict(self, columns: Columns) -> object:
        """Return what the run's function `predict` returns for the batch of these rows."""
        with torch.inference_mode():
            return call_hook(self._predict, self.model, self._batch(columns), self._about)

    def export(self, columns: Columns, form: str, file: Path) -> tuple[Columns, Columns]:
        """Write the model as a file; return its outputs, and those of the file."""
        first = {name: each[:1] for name, each in columns.items()}
        batches = [inputs_of(self.model, partial(self.predict, each)) for each in (columns, first)]
        call = write_module(self.model, batches[0], form, file)
        return outputs(self.model, batches), outputs(call, batches)

    def _batch(self, columns: Columns) -> object:
        plan = self._plan
        if plan.collate:
            ids = np.arange(num_rows(columns), dtype=np.int64)
            structure, tensors = take_apart(collate(plan, columns, ids, 0, 0), "")
            return structure.filled(self._moved(tensors))
        return self._moved(number_tensors(plan, columns))

    def _moved(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}


def number_tensors(plan: DatasetPlan, columns: Columns) -> dict[str, torch.Tensor]:
    """Return the columns of numbers as training has them; texts and bytes name rows."""
    numbers = {name: each for name, each in columns.items() if each.dtype.kind in _NUMBERS}
    dtypes = {column: getattr(torch, name) for column, name in plan.spec.feed.dtypes.items()}
    ids = np.arange(num_rows(columns), dtype=np.int64)
    return to_tensors(plan, dtypes, (numbers, ids))
