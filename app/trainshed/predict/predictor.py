"""What the module of a framework provides, and what its predictions become. Pure."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trainshed.data.sources.column_arrays import as_objects, num_rows
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trainshed.checkpoint.manifest import Prediction
    from trainshed.data.sources.column_arrays import Array, Columns

PREDICTION = "prediction"
# Of a classifier: the scores of all classes, shape (rows, classes).
SCORES = "scores"


class Predictor(Protocol):
    """A loaded model of one framework."""

    @property
    def model(self) -> object:
        """Return the model as the framework has it."""
        ...

    @property
    def formats(self) -> Sequence[str]:
        """Return the formats of `export`."""
        ...

    def predict(self, columns: Columns) -> object:
        """Return the predictions for some rows: an array, or arrays by name."""
        ...

    def export(self, columns: Columns, form: str, file: Path) -> tuple[Columns, Columns]:
        """Write the model as a file.

        Returns:
            Outputs by name for at least two rows: of the model, and of that in the file.
        """
        ...


def call_hook(
    hook: Callable[..., object], model: object, batch: object, about: Prediction
) -> object:
    """Return the predictions of a user's function, which may also want the description."""
    takes_about = len(inspect.signature(hook).parameters) > 2  # noqa: PLR2004 - model and batch
    return hook(model, batch, about) if takes_about else hook(model, batch)


def as_columns(found: object, rows: Columns, about: Prediction) -> Columns:
    """Return predictions as columns, with the names of classes for their numbers.

    Args:
        found: an array or a tensor, or several by name; one entry for each row.
        rows: that they belong to.
        about: the description of the model.

    Raises:
        DataError: if there are more or fewer predictions than rows.
    """
    by_name = found if isinstance(found, dict) else {PREDICTION: found}
    columns = {str(name): _as_array(values) for name, values in by_name.items()}
    for name, array in columns.items():
        expected = num_rows(rows)
        if array.ndim == 0 or len(array) != expected:
            got = "one value" if array.ndim == 0 else f"{len(array)} values"
            who = about.predict or "the model"
            raise DataError(f"{name}: got {got} for {expected} rows from {who}; expected one a row")
    predicted = columns.get(PREDICTION)
    if about.classes and predicted is not None and predicted.dtype.kind in "iu":
        most = len(about.classes) - 1
        if len(predicted) and not 0 <= predicted.min() <= predicted.max() <= most:
            wrong = predicted.min() if predicted.min() < 0 else predicted.max()
            raise DataError(f"{PREDICTION}: got class {wrong}; expected one from 0 to {most}")
        columns[PREDICTION] = as_objects([about.classes[number] for number in predicted.tolist()])
    return columns


def _as_array(values: object) -> Array:
    if hasattr(values, "detach"):  # a tensor of torch, which this module does not import
        values = values.detach().cpu()
    array = np.asarray(values)
    return array[:, 0] if array.ndim > 1 and array.shape[1:] == (1,) else array
