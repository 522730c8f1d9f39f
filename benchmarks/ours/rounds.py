"""Trains XGBoost and measures the rounds."""

import time
from pathlib import Path
from types import SimpleNamespace

import trainshed.boosting
from trainshed.boosting.matrix_columns import MatrixColumns


def train(config: dict[str, object]) -> None:
    """Train `config["rounds"]` rounds; rank 0 writes their seconds to `config["out"]`."""
    options = SimpleNamespace(**config)
    run = trainshed.boosting.current()
    matrix = run.matrix("train", MatrixColumns("y"))
    started = time.perf_counter()
    run.boost(options.params, matrix, options.rounds)
    if run.rank == 0:
        Path(options.out).write_text(str(time.perf_counter() - started), encoding="utf-8")
