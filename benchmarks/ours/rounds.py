"""Trains XGBoost and measures the rounds."""

import time
from pathlib import Path

import trainshed.boosting
from trainshed.boosting.matrix_columns import MatrixColumns


def train(config: dict[str, object]) -> None:
    """Grow `config["rounds"]` trees by `config["params"]`."""
    params = config["params"]
    assert isinstance(params, dict)
    run = trainshed.boosting.current()
    matrix = run.matrix("train", MatrixColumns("y"))
    began = time.perf_counter()
    run.boost(params, matrix, int(str(config["rounds"])))
    if run.rank == 0:
        Path(str(config["out"])).write_text(str(time.perf_counter() - began), encoding="utf-8")
