"""Training functions of XGBoost that tests name in `spec.train`; they run in Ray's workers."""

import time
from collections.abc import Mapping

import numpy as np
import xgboost
from numpy.typing import NDArray

import trainshed.boosting
from tests.app.train_functions import die, linger
from trainshed.boosting.columns import MatrixColumns
from trainshed.boosting.stopping import EarlyStopping
from trainshed.driver.signals import Stop

PARAMS: Mapping[str, object] = {
    "objective": "reg:squarederror",
    "max_depth": 4,
    "eta": 0.3,
    "subsample": 0.5,
    "colsample_bynode": 0.5,
}
# Set by a test in this process, for a config with `suspendAt`.
stop: Stop | None = None


def boost(config: dict[str, object]) -> None:
    """Grow trees on columns x and y, scored by a function; die where the config says.

    `killWorkerAt`, `killDriverAt` (rounds) and `hurry` are as train_functions.py has them.
    """
    run = trainshed.boosting.current()

    def half_error(predicted: NDArray[np.float32], rows: xgboost.DMatrix) -> tuple[str, float]:
        die(config, run.step, run.rank)
        linger(config)
        if stop is not None and run.step >= int(str(config["suspendAt"])):
            stop.order("Suspended", 60)
            time.sleep(0.3)  # longer than ranks go without agreeing
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
