"""Trains XGBoost and measures the rounds."""

import time
from pathlib import Path
from typing import Any

import trainshed.boosting
from trainshed.boosting.matrix_columns import MatrixColumns


def train(config: dict[str, Any]) -> None:
    """Train `config["rounds"]` rounds; rank 0 writes their seconds to `config["out"]`."""
    run = trainshed.boosting.current()
    matrix = run.matrix("train", MatrixColumns("y"))
    started = time.perf_counter()
    run.boost(config["params"], matrix, config["rounds"])
    if run.rank == 0:
        Path(config["out"]).write_text(str(time.perf_counter() - started), encoding="utf-8")
