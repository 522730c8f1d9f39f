"""A trained model with what turns rows into its batches and its outputs into columns."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainshed.checkpoint import store
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.model_file import TORCH, XGBOOST
from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.function import are_grouped
from trainshed.data.sampler.sizes import CacheMemory
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.casts import find_misfit
from trainshed.data.sources.column_arrays import as_column
from trainshed.data.sources.errors import DataError, UsersError, on_one_line
from trainshed.planning.machine import check_framework, use_keras_2
from trainshed.predict.hooks import RUN
from trainshed.predict.predictor import as_columns
from trainshed.predict.trained_run import find_checkpoint
from trainshed_api.data import DatasetSpec
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainshed.checkpoint.manifest import Manifest
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.predict.predictor import Predictor
    from trainshed.storage.folder import Folder

# The plan of the dataset that trained needs a source of rows; no function of this name is called.
_ROWS = {"use": "trainshed:load"}


class TrainedModel:
    """The model of a checkpoint.

    Args:
        checkpoint: its folder.
        manifest: of the checkpoint.
        device: of a PyTorch or Keras model; None for the GPU if there is one.
    """

    def __init__(self, checkpoint: Folder, manifest: Manifest, device: str | None) -> None:
        self.checkpoint = checkpoint
        self.manifest = manifest
        self._about = manifest.prediction
        spec = DatasetSpec.model_validate({**self._about.dataset, "read": _ROWS})
        plan = plan_dataset("train", spec, None, None, CacheMemory(0, 0), 1)
        if are_grouped(plan.transforms):
            expected = (
                "transforms that need no other rows. Load the weights in your own code: the file "
                f"{store.model_name(manifest)} of {checkpoint}"
            )
            raise SpecError([Problem(RUN, "a run with transforms of groups", expected)])
        # A filter selects the rows to train on; each row gets a prediction.
        self._transforms = [each for each in plan.transforms if each.kind != "filter"]
        self._types = {name: t for each in manifest.columns.values() for name, t in each.items()}
        with local_checkpoint(checkpoint, manifest) as folder:
            self._predictor = _load(folder, manifest, plan, device)

    @property
    def model(self) -> object:
        """Return the model as its framework has it."""
        return self._predictor.model

    @property
    def uses_gpu(self) -> bool:
        """Return whether a GPU can predict: XGBoost's trees predict on CPUs."""
        return not XGBOOST.reads(store.model_name(self.manifest))

    @property
    def formats(self) -> Sequence[str]:
        """Return the formats that `trainshed export` writes."""
        return self._predictor.formats

    def export(self, rows: Columns, form: str, file: Path) -> tuple[Columns, Columns]:
        """Write the model as a file, as `Predictor.export` does, for rows as they were read."""
        columns = self._as_trained(transform(rows, self._transforms))
        return self._predictor.export(columns, form, file)

    def predict(self, rows: Mapping[str, object] | Sequence[Mapping[str, object]]) -> Columns:
        """Return the predictions for some rows, by column; `prediction` is one of them.

        Args:
            rows: values by column, or one mapping for each row; before the dataset's transforms.

        Raises:
            DataError: if they lack a column, or a function refuses them.
        """
        by_column = rows if isinstance(rows, Mapping) else _by_column(rows)
        return self.predict_table({name: as_column(each) for name, each in by_column.items()})

    def predict_table(self, table: Columns) -> Columns:
        """Return the predictions for a table as it was read."""
        columns = self._as_trained(transform(table, self._transforms))
        try:
            found = self._predictor.predict(columns)
        except (ValueError, DataError) as error:
            raise DataError(on_one_line(error)) from error
        except Exception as error:
            said = f"{type(error).__name__}: {on_one_line(error)}"
            who = self._about.predict or "the model"
            raise UsersError(f"{who} raised {said}", traceback.format_exc()) from error
        return as_columns(found, table, self._about)

    def _as_trained(self, columns: Columns) -> Columns:
        """Return numbers in the types that the training function was given, if these hold them."""
        found = dict(columns)
        for name, array in columns.items():
            wanted = self._types.get(name, "object")
            if array.dtype.kind in "mM" and np.dtype(wanted).kind in "biuf":
                raise DataError(
                    f"column {name}: got {array.dtype}; expected {wanted}, as in training"
                )
            are_numbers = {array.dtype.kind, np.dtype(wanted).kind} <= set("biuf")
            if are_numbers and not find_misfit(array, wanted):
                found[name] = array.astype(wanted, copy=False)
        return found


def load_model(run: str, device: str | None = None) -> TrainedModel:
    """Return the model of a run, for `trainshed.load`.

    Args:
        run: as in `find_checkpoint`.
        device: of a PyTorch or Keras model; None for the GPU if there is one.

    Raises:
        SpecError: if there is no such checkpoint, or it lacks what prediction needs.
    """
    try:
        return TrainedModel(*find_checkpoint(run), device)
    except store.BadCheckpointError as error:
        expected = f"a complete checkpoint ({error}). Choose another one by its path"
        raise SpecError([Problem(RUN, run, expected)]) from error


def _load(folder: Path, manifest: Manifest, plan: DatasetPlan, device: str | None) -> Predictor:
    # A framework is imported only for its own models.
    name, about = store.model_name(manifest), manifest.prediction
    if TORCH.reads(name):
        from trainshed.predict.torch_model import TorchPredictor

        return TorchPredictor(folder / name, about, plan, device)
    if XGBOOST.reads(name):
        check_framework("xgboost", in_cluster=False)
        from trainshed.predict.boosted_model import BoostedPredictor

        return BoostedPredictor(folder / name, about)
    check_framework("tensorflow", in_cluster=False)
    use_keras_2()
    from trainshed.predict.keras_model import KerasPredictor

    return KerasPredictor(folder / name, about, plan, device)


def _by_column(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
