"""Predictions of XGBoost's trees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import xgboost

from trainshed.boosting.feature_state import FeatureState
from trainshed.boosting.matrix_columns import features
from trainshed.predict.hooks import find_hook
from trainshed.predict.predictor import PREDICTION, SCORES, call_hook
from trainshed_api.errors import no_column, show_value

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.checkpoint.manifest import Prediction
    from trainshed.data.sources.column_arrays import Array, Columns

# The objective under which the same trees give the probability of each class.
_WITH_PROBABILITIES = {"multi:softmax": "multi:softprob", "binary:logitraw": "binary:logistic"}


class BoostedPredictor:
    """Trees up to the best round, with the features of the rows that trained.

    Args:
        file: of the trees.
        about: the description of the model.
    """

    formats = ("ubj",)

    def __init__(self, file: Path, about: Prediction) -> None:
        self.model = xgboost.Booster()
        self.model.load_model(bytearray(file.read_bytes()))
        self._predict = find_hook(about.predict, "predict") if about.predict else None
        self._about = about
        state = FeatureState.model_validate(about.state)
        self._layout, self._categories = state.layout(), state.known_categories()
        config = json.loads(self.model.save_config())
        self._trained = config["learner"]["objective"]["name"]
        self._objective = _WITH_PROBABILITIES.get(self._trained, self._trained)
        self.model.set_param({"objective": self._objective})
        best = self.model.attr("best_iteration")
        self._rounds = (0, 0 if best is None else int(best) + 1)

    def predict(self, columns: Columns) -> object:
        """Return the class, its probability and the scores of all classes, or the number."""
        if self._predict:
            return call_hook(self._predict, self.model, columns, self._about)
        found = np.asarray(self.model.predict(self._matrix(columns), iteration_range=self._rounds))
        if self._objective == "binary:logistic":
            found = np.stack([1 - found, found], axis=1)
        elif self._objective == "binary:hinge":
            return {PREDICTION: found.astype(np.int64)}
        elif self._objective != "multi:softprob":
            return {PREDICTION: found}
        return {
            PREDICTION: found.argmax(axis=1),
            "probability": found.max(axis=1),
            SCORES: found,
        }

    def export(self, columns: Columns, form: str, file: Path) -> tuple[Columns, Columns]:  # noqa: ARG002 - the only one
        """Write the trees up to the best round; return the margins, and those of the file."""
        end, matrix = self._rounds[1], self._matrix(columns)
        written = self.model[:end] if end else self.model.copy()
        written.set_param({"objective": self._trained})
        written.save_model(file)
        read = xgboost.Booster(model_file=file)
        found = self.model.predict(matrix, iteration_range=self._rounds, output_margin=True)
        margins = read.predict(matrix, output_margin=True)
        return {SCORES: np.asarray(found)}, {SCORES: np.asarray(margins)}

    def _matrix(self, columns: Columns) -> xgboost.DMatrix:
        for each in self._layout.inputs:
            if each.name not in columns:
                raise ValueError(no_column(each.name, columns))
            if each.kind == "texts":
                _check_texts(each.name, columns[each.name])
        return xgboost.DMatrix(
            features(columns, self._categories, self._layout),
            feature_names=list(self._layout.names),
            feature_types=list(self._layout.types),
            enable_categorical="c" in self._layout.types,
        )


def _check_texts(name: str, values: Array) -> None:
    """Refuse values that are not the texts that trained: as numbers they would be unknown ones."""
    other = next((v for v in values.tolist() if not (v is None or isinstance(v, str))), None)
    if other is not None:
        raise ValueError(
            f"column {name}: got {show_value(other)}; expected texts, as in training. Write them "
            f"as texts, or read them so: --option types.{name}=string"
        )
