"""Trains the Keras model and measures the epochs."""

from typing import Any

import trainshed.keras
from benchmarks.plain.keras_model import EpochTimes, build_mlp


def train(config: dict[str, Any]) -> None:
    """Train layers of `config["hidden"]` on rows of `config["features"]` numbers."""
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = build_mlp(config["features"], config["hidden"], 10)
    run.track(model)
    times = EpochTimes()
    run.fit(lambda columns: (columns["x"], columns["y"]), callbacks=[times])
    times.write(config["out"])
