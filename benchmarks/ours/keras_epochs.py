"""Trains the Keras model and measures the epochs."""

import trainshed.keras
from benchmarks.plain.keras_model import EpochTimes, build_mlp


def train(config: dict[str, object]) -> None:
    """Fit `config["hidden"]` wide on `config["features"]` numbers a row."""
    hidden, features = config["hidden"], config["features"]
    assert isinstance(hidden, list)
    assert isinstance(features, int)
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = build_mlp(features, hidden, 10)
    run.track(model)
    times = EpochTimes()
    run.fit(lambda columns: (columns["x"], columns["y"]), callbacks=[times])
    times.write(str(config["out"]))
