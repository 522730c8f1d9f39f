"""Training functions of XGBoost that tests name in `spec.train`; they run in Ray's workers."""

from collections.abc import Mapping

import numpy as np
import xgboost
from numpy.typing import NDArray

import trainshed.boosting
from tests.app.train_functions import die, linger, suspend
from trainshed.boosting.early_stopping import EarlyStopping
from trainshed.boosting.matrix_columns import MatrixColumns

PARAMS: Mapping[str, object] = {
    "objective": "reg:squarederror",
    "max_depth": 4,
    "eta": 0.3,
    "subsample": 0.5,
    "colsample_bynode": 0.5,
}


def boost(config: dict[str, object]) -> None:
    """Grow trees on columns x and y, scored by a function; die where the config says.

    `killWorkerAt`, `killDriverAt` (rounds) and `hurry` are as train_functions.py has them.
    """
    run = trainshed.boosting.current()

    def half_error(predicted: NDArray[np.float32], rows: xgboost.DMatrix) -> tuple[str, float]:
        die(config, run.step, run.rank)
        linger(config)
        suspend(config, run.step)
        return "halfError", float(np.abs(predicted - rows.get_label()).mean() / 2)

    columns = MatrixColumns("y", ("x",))
    matrix = run.matrix("train", columns)
    run.boost(
        PARAMS,
        matrix,
        int(str(config["rounds"])),
        scored={"train": matrix},
        early_stopping=EarlyStopping(1000),
        metric=half_error,
    )


def rest(config: dict[str, object]) -> None:
    """Grow no trees."""
